"""The geometry of the console's drawings, in the units of their view boxes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from itertools import groupby

from queueapp.jobs.status import Event
from queueapp.jobs.verdict.minutes import Minute, p95_s, together

HEIGHT = 100.0
WIDTH = 1200.0
HOUR_S = 3600.0
# From the bottom up, always: a stack that is re-sorted by size cannot be compared. By look.
STACK = {
    "succeeded": Event.SUCCEEDED,
    "cancelled": Event.CANCELLED,
    "retrying": Event.RETRY_SCHEDULED,
    "failed": Event.FAILED,
}
# What each is called; the others by their own name.
NAMES = {"retrying": "failed, to be retried", "failed": "failed for good"}
# What is there must be seen, however small beside the rest.
_LEAST = 1.5
# A busy queue fills several lines a minute: they are drawn as one.
_NARROWEST_S = 50.0
_MINUTE_S = 60.0
# Between two columns.
_GAP = 3.0
# The scale of waits: each step twice the one before, from 1 ms to a little more than an hour.
_LAST_STEP = 22


@dataclass(frozen=True)
class Block:
    """One part of a stack."""

    look: str
    y: float
    height: float


@dataclass(frozen=True)
class Column:
    """What one line of the statistics tells, at its place.

    ``counts``: jobs that ended and attempts that are to be repeated, by look; ``rates``: as many a
    minute, as they are drawn.
    ``wait_s``: 95 of 100 that started waited no longer, None when none did; ``wait_y``: drawn.
    """

    since: datetime
    at: datetime
    x: float
    width: float
    counts: dict[str, int]
    rates: dict[str, int]
    blocks: tuple[Block, ...]
    wait_s: float | None
    wait_y: float | None


@dataclass(frozen=True)
class Mark:
    """Something that somebody did at a moment of the hour."""

    at: datetime
    x: float
    said: str


@dataclass(frozen=True)
class Told:
    """Marks beside each other that say the same."""

    since: datetime
    at: datetime
    number: int
    said: str


@dataclass(frozen=True)
class Chart:
    """``peak``: the most of a minute; ``totals``: those of the hour, by look."""

    columns: list[Column]
    marks: list[Mark]
    peak: int
    totals: dict[str, int]
    from_: datetime
    to: datetime

    @property
    def quarters(self) -> list[datetime]:
        """The instants of its axis, from the first to the last."""
        return [self.from_ + (self.to - self.from_) * n / 4 for n in range(5)]

    @property
    def is_scaled(self) -> bool:
        """Whether a column is drawn higher or lower than what it counts, which is told then."""
        return any(column.counts != column.rates for column in self.columns)

    @property
    def told(self) -> list[Told]:
        """Its marks in words, one for those beside each other that say the same."""
        alike = (list(same) for _, same in groupby(self.marks, key=lambda mark: mark.said))
        return [Told(same[0].at, same[-1].at, len(same), same[0].said) for same in alike]

    @property
    def last_wait_s(self) -> float | None:
        """The wait of the newest column that has one."""
        waits = (column.wait_s for column in reversed(self.columns))
        return next((wait for wait in waits if wait is not None), None)


def chart_of(
    minutes: Sequence[Minute], now: datetime, marks: Iterable[tuple[datetime, str]] = ()
) -> Chart:
    """Lay out the last hour: one stacked column for each line of the statistics."""
    from_ = now - timedelta(seconds=HOUR_S)
    lines = [line for line in _merged(minutes) if line.at > from_]
    peak = max((sum(_rates(line).values()) for line in lines), default=0)
    columns = [_column(line, peak, from_) for line in lines]
    totals = {look: sum(column.counts[look] for column in columns) for look in STACK}
    drawn = [Mark(at, _x(at, from_), said) for at, said in marks if at > from_]
    return Chart(columns, sorted(drawn, key=lambda mark: mark.at), peak, totals, from_, now)


def share(number: int | None, of: int) -> float:
    """The length of a bar from 0 to 100, for ``number`` on a scale that ends at ``of``."""
    if not number or of <= 0:
        return 0.0
    return round(max(_LEAST, 100.0 * min(number, of) / of), 2)


def _merged(minutes: Sequence[Minute]) -> Iterator[Minute]:
    held: list[Minute] = []
    for minute in minutes:
        held.append(minute)
        if (minute.at - held[0].since).total_seconds() >= _NARROWEST_S:
            yield reduce(together, held)
            held = []
    if held:
        yield reduce(together, held)


def _counts(line: Minute) -> dict[str, int]:
    return {look: line.count(end) for look, end in STACK.items()}


def _rates(line: Minute) -> dict[str, int]:
    """Ends a minute, each that there was at least 1."""
    minutes = max((line.at - _begun(line)).total_seconds(), 1.0) / 60
    return {look: max(1, round(n / minutes)) if n else 0 for look, n in _counts(line).items()}


def _begun(line: Minute) -> datetime:
    """Where its column begins: behind a gap, in which nobody counted, with its first event."""
    shortest = line.at - timedelta(seconds=_MINUTE_S)
    return max(line.since, min(line.first_at or line.since, shortest))


def _column(line: Minute, peak: int, from_: datetime) -> Column:
    since = max(_begun(line), from_)
    x, end = _x(since, from_), _x(line.at, from_)
    wait, rates = p95_s(line.waits), _rates(line)
    return Column(
        since,
        line.at,
        x,
        max(round(end - x - _GAP, 2), 1.0),
        _counts(line),
        rates,
        tuple(_blocks(rates, peak)),
        wait,
        None if wait is None else wait_y(wait),
    )


def _x(at: datetime, from_: datetime) -> float:
    return round(WIDTH * (at - from_).total_seconds() / HOUR_S, 2)


def wait_y(seconds: float) -> float:
    """Where a wait stands on its scale, each step of which doubles."""
    step = math.ceil(math.log2(max(seconds, 0.001) * 1000))
    return round(HEIGHT * (1 - (min(step, _LAST_STEP) + 1) / (_LAST_STEP + 1)), 2)


def _blocks(rates: dict[str, int], peak: int) -> Iterator[Block]:
    top = HEIGHT
    for look in STACK:
        height = share(rates[look], peak)
        if height:
            top -= height
            yield Block(look, round(max(top, 0.0), 2), height)
