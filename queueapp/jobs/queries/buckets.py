"""How instants lie in a span of time, for drawings. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

BUCKETS = 30


def buckets_of(
    instants: Iterable[datetime], start: datetime | None, end: datetime, *, number: int = BUCKETS
) -> list[int]:
    """How many of the instants lie in each of ``number`` equal parts of the time up to ``end``."""
    counts = [0] * number
    if start is None:
        return counts
    span = max((end - start).total_seconds(), 1.0)
    for instant in instants:
        place = int((instant - start).total_seconds() / span * number)
        counts[min(max(place, 0), number - 1)] += 1
    return counts
