"""Small charts of a few counts over time, for a cell of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from queueapp.console import preferences
from queueapp.console.filters import time_of
from queueapp.jobs.why.words import elapsed

WIDTH, HEIGHT = 120.0, 20.0
# What is there must be seen, however small beside the rest.
_LEAST = 2.0


@dataclass(frozen=True)
class Spark:
    """Columns as (x, y, width, height) in a box of WIDTH and HEIGHT; ``words``: the same."""

    columns: list[tuple[float, float, float, float]]
    words: str


def spark_of(counts: Sequence[int], start: datetime | None, end: datetime) -> Spark:
    """Draw ``counts`` over the time from ``start`` to ``end``."""
    peak = max(counts, default=0)
    if not peak or start is None:
        return Spark([], "none in this window")
    step = WIDTH / len(counts)
    columns = []
    for place, number in enumerate(counts):
        if number:
            height = max(_LEAST, round(HEIGHT * number / peak, 1))
            columns.append((round(place * step, 1), HEIGHT - height, round(step * 0.8, 1), height))
    part = max((end - start).total_seconds() / len(counts), 1.0)
    most = start + (end - start) * counts.index(peak) / len(counts)
    chosen = preferences.present()
    at = f"{time_of(most, end, zone=chosen.tz)} {chosen.zone}"
    return Spark(columns, f"at most {peak:,} within {elapsed(part)}, at {at}")
