"""Median, least and most, and percentiles, of few figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """Figures of the same thing, one of each round."""

    middle: float
    least: float
    most: float
    count: int


def spread(figures: Sequence[float]) -> Spread | None:
    """Median, minimum and maximum; None of nothing."""
    if not figures:
        return None
    return Spread(median(figures), min(figures), max(figures), len(figures))


def percentile(figures: Sequence[float], point: float) -> float:
    """The smallest figure that ``point`` per cent are not above (nearest rank)."""
    if not figures:
        raise ValueError("no percentile of nothing")
    ordered = sorted(figures)
    return ordered[max(0, math.ceil(len(ordered) * point / 100) - 1)]
