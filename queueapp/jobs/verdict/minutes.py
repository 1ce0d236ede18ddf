"""The minute's lines as the rules and the charts read them: sums, shares, percentiles. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from queueapp.jobs.instants import read_instant
from queueapp.jobs.status import Event

# Every event with which an attempt ends; a lost lease is followed by one of them.
SUCCEEDED, FAILED, CANCELLED = Event.SUCCEEDED, Event.FAILED, Event.CANCELLED
RETRIED = Event.RETRY_SCHEDULED
ENDS = (SUCCEEDED, FAILED, CANCELLED)
ARRIVALS = (Event.ENQUEUED, Event.REQUEUED, Event.RESTORED)

# The very first line counts nothing: it is the mark from which the next one goes on.
SHORTEST = timedelta(seconds=1)
# What is written while a line is made is counted by the next one.
OVERLAP = timedelta(seconds=30)
# The workers write a line a minute, whatever happens: of what came after a newest one that is older
# nothing is known, and what it tells is no pace of now.
LATE_S = 120.0


@dataclass(frozen=True)
class Minute:
    """One line: what was counted from ``since`` to ``at``, over all kinds.

    ``retries``: claims of jobs that had been tried before; ``waits``: how many claims came after
    at most 2^n ms, by n; ``runs``: the same of how long attempts ran, where that was asked for.
    ``later``: jobs that were created for more than a minute later; ``due``: such jobs whose time
    came; ``first_at``: when the first event of it was, where that is known.
    """

    at: datetime
    since: datetime
    events: Mapping[str, int] = field(default_factory=dict)
    retries: int = 0
    waits: Mapping[int, int] = field(default_factory=dict)
    runs: Mapping[int, int] = field(default_factory=dict)
    later: int = 0
    due: int = 0
    first_at: datetime | None = None

    def count(self, *events: str) -> int:
        """How many of these there were."""
        return sum(self.events.get(event, 0) for event in events)

    @property
    def starts(self) -> int:
        """Claims that were not given back."""
        return max(0, self.count(Event.CLAIMED) - self.count(Event.RELEASED, Event.DEFERRED))

    @property
    def ended(self) -> int:
        """Jobs that ended."""
        return self.count(*ENDS)

    @property
    def attempts(self) -> int:
        """Attempts that came to a result."""
        return self.count(SUCCEEDED, FAILED, RETRIED)

    @property
    def failures(self) -> int:
        """Those of them without success."""
        return self.count(FAILED, RETRIED)

    @property
    def arrived(self) -> int:
        """Jobs that were created, or begun anew, and are due."""
        return max(0, self.count(*ARRIVALS) - self.later) + self.due


def read_minutes(
    lines: Iterable[Mapping[str, Any]], uncounted_at: datetime | None = None
) -> list[Minute]:
    """Lines of the ledger by when they ended. A line goes on where the one before it did.

    One that counts what an open transaction had kept from those before it is told as one with them.
    ``uncounted_at``: the first event that no line counts yet; lines beyond that do not tell all of
    their time, and are left out.
    """
    found: list[Minute] = []
    for minute in sorted(map(_read, lines), key=lambda minute: minute.at):
        while found and minute.since < found[-1].at - OVERLAP:
            minute = together(found.pop(), minute)
        if found:
            minute = replace(minute, since=min(found[-1].at, minute.at))
        found.append(minute)
    if found and found[0].at - found[0].since < SHORTEST:
        del found[0]
    return [one for one in found if uncounted_at is None or one.at <= uncounted_at + OVERLAP]


def _read(line: Mapping[str, Any]) -> Minute:
    at = instant(line["at"])
    first_at = min(instant(line["since"] or line["at"]), at)
    return Minute(
        at,
        first_at,
        {name: int(n) for name, n in (line["events"] or {}).items()},
        int(line["retries"] or 0),
        {int(bucket): int(n) for bucket, n in (line["waits"] or {}).items()},
        later=int(line.get("later") or 0),
        due=int(line.get("due") or 0),
        first_at=first_at,
    )


def together(one: Minute, other: Minute) -> Minute:
    """Two lines, the older one first, as one."""
    return Minute(
        other.at,
        min(one.since, other.since),
        Counter(one.events) + Counter(other.events),
        one.retries + other.retries,
        Counter(one.waits) + Counter(other.waits),
        later=one.later + other.later,
        due=one.due + other.due,
        first_at=min((at for at in (one.first_at, other.first_at) if at), default=None),
    )


def instant(value: Any) -> datetime:
    """An instant from a column or from within JSON."""
    return read_instant(value) if isinstance(value, str) else value


def last(minutes: Sequence[Minute], now: datetime, seconds: float) -> list[Minute]:
    """The lines that end within the last ``seconds``, each of them whole.

    One that is about longer than a minute tells only that all of it may be of lately.
    """
    return [minute for minute in minutes if minute.at > now - timedelta(seconds=seconds)]


def about(minutes: Sequence[Minute], now: datetime, seconds: float) -> int:
    """Of how many minutes before ``now`` these lines tell, which are the last of ``seconds``.

    As many as were asked for, unless the first of them is about much longer than a minute.
    """
    told_s = (now - minutes[0].since).total_seconds() if minutes else 0.0
    return round((told_s if told_s > seconds + LATE_S else seconds) / 60)


def total(minutes: Iterable[Minute], of: Callable[[Minute], int]) -> int:
    """Add up."""
    return sum(of(minute) for minute in minutes)


def rate(minutes: Sequence[Minute], of: Callable[[Minute], int]) -> float | None:
    """How many a minute; None without a span to divide by."""
    spent = (minutes[-1].at - minutes[0].since).total_seconds() if minutes else 0.0
    return total(minutes, of) * 60 / spent if spent > 0 else None


def lasting_since(minutes: Sequence[Minute], holds: Callable[[Minute], bool]) -> datetime | None:
    """When the unbroken run of lines began that ends with the newest one.

    A line in which nothing happened neither breaks it nor begins it.
    """
    began = None
    for minute in reversed(minutes):
        if holds(minute):
            began = minute.since
        elif minute.attempts or minute.starts or minute.arrived:
            break
    return began


def p95_s(histogram: Mapping[int, int]) -> float | None:
    """The upper end of the bucket that the 95th of 100 is in, in seconds; None for none."""
    return quantile_s(histogram, 0.95)


def quantile_s(histogram: Mapping[int, int], share: float) -> float | None:
    """The same for another ``share`` than 0.95."""
    wanted, seen = math.ceil(sum(histogram.values()) * share), 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= wanted:
            return float(2.0**bucket / 1000)
    return None


def waits_of(minutes: Iterable[Minute]) -> Counter[int]:
    """The waits of these lines in one histogram."""
    found: Counter[int] = Counter()
    for minute in minutes:
        found.update(minute.waits)
    return found
