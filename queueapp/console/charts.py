"""The geometry of the console's drawings, in the units of their view boxes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from queueapp.jobs.queries import Outcomes, Throughput
from queueapp.jobs.status import Status

HEIGHT = 100.0
STEP = 20.0
BAR = 16.0
# From the bottom up, always: a stack that is re-sorted by size cannot be compared.
STACK = (Status.SUCCEEDED, Status.CANCELLED, Status.FAILED)
# What is there must be seen, however small beside the rest.
_LEAST = 1.5


@dataclass(frozen=True)
class Block:
    """One part of a stack."""

    status: Status
    y: float
    height: float


@dataclass(frozen=True)
class Column:
    """One minute. ``complete``: every outcome of it was counted."""

    minute: datetime
    x: float
    counts: dict[Status, int | None]
    blocks: tuple[Block, ...]
    complete: bool


@dataclass(frozen=True)
class Chart:
    """``peak``: the most jobs that ended in one minute; ``totals``: those counted, by outcome."""

    columns: list[Column]
    peak: int
    totals: dict[Status, int]
    width: float
    cut: tuple[Status, ...]


def chart_of(throughput: Throughput) -> Chart:
    """Lay out the throughput: one stacked column a minute."""
    minutes = throughput.minutes
    peak = max((_total(minute) for minute in minutes), default=0)
    totals = {status: sum(m.counts[status] or 0 for m in minutes) for status in STACK}
    columns = [_column(place, minute, peak) for place, minute in enumerate(minutes)]
    return Chart(columns, peak, totals, STEP * len(columns), throughput.cut)


def share(number: int | None, of: int) -> float:
    """The length of a bar from 0 to 100, for ``number`` on a scale that ends at ``of``."""
    if not number or of <= 0:
        return 0.0
    return round(max(_LEAST, 100.0 * min(number, of) / of), 2)


def _total(minute: Outcomes) -> int:
    return sum(minute.counts[status] or 0 for status in STACK)


def _column(place: int, minute: Outcomes, peak: int) -> Column:
    complete = all(minute.counts[status] is not None for status in STACK)
    x = place * STEP + (STEP - BAR) / 2
    return Column(minute.minute, x, minute.counts, tuple(_blocks(minute, peak)), complete)


def _blocks(minute: Outcomes, peak: int) -> Iterator[Block]:
    top = HEIGHT
    for status in STACK:
        height = share(minute.counts[status], peak)
        if height:
            top -= height
            yield Block(status, round(max(top, 0.0), 2), height)
