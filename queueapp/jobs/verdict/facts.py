"""What the rules look at: the state of the queue at one instant, each part read or not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from queueapp.jobs import deploy
from queueapp.jobs.control import Controls
from queueapp.jobs.queries.blocked import Blocker
from queueapp.jobs.verdict.findings import Unread
from queueapp.jobs.verdict.handed_back import HandedBack
from queueapp.jobs.verdict.kind_counts import KindCounts
from queueapp.jobs.verdict.minutes import LATE_S, Minute
from queueapp.jobs.verdict.thresholds import Thresholds
from queueapp.jobs.why.facts import Worker


@dataclass(frozen=True)
class Head:
    """The head of a priority's line of due jobs; ``jobs`` stops at COUNT_LIMIT + 1.

    ``at``: since when its first job could have started: due, and created. ``able_*``: the same of
    the first one that a live worker can run, None where there is none among the first ones.
    """

    priority: int
    jobs: int
    id: int
    kind: str
    at: datetime
    able_id: int | None = None
    able_kind: str | None = None
    able_at: datetime | None = None


@dataclass(frozen=True)
class Holding:
    """Who holds running jobs. ``renewed_to``: the latest end of a lease that tells of a renewal."""

    name: str
    jobs: int
    first_expiry: datetime
    last_expiry: datetime
    renewed_to: datetime | None


@dataclass(frozen=True)
class Running:
    """The running jobs of a kind that have begun: the first of them and the last.

    ``asked``: how many were asked to stop, ``asked_at``: when the first of those was.
    """

    kind: str
    jobs: int
    first_id: int
    first_at: datetime
    last_at: datetime
    asked: int = 0
    asked_at: datetime | None = None


@dataclass(frozen=True)
class HeldKind:
    """Due jobs that were moved to held; ``jobs`` stops at MOST_HELD + 1."""

    kind: str
    jobs: int
    at: datetime


@dataclass(frozen=True)
class Line:
    """What waits and what runs. ``ended_at``: when an attempt last ended, None: none is known."""

    heads: Sequence[Head] = ()
    running: int = 0
    overdue: int = 0
    first_expiry: datetime | None = None
    highest: int | None = None
    holders: Sequence[Holding] = ()
    kinds: Sequence[Running] = ()
    held: Sequence[HeldKind] = ()
    ended_at: datetime | None = None

    @property
    def due(self) -> int:
        """Jobs that could start now."""
        return sum(head.jobs for head in self.heads)

    @property
    def oldest(self) -> Head | None:
        """The priority whose first job has been due for longest."""
        return min(self.heads, key=lambda head: head.at, default=None)

    @property
    def oldest_able(self) -> Head | None:
        """The same among those with a job that a live worker can run."""
        able = [(head.able_at, head) for head in self.heads if head.able_at is not None]
        return min(able, key=lambda one: one[0])[1] if able else None


@dataclass(frozen=True)
class Hour:
    """The minute's lines of the last hour, oldest first, as far as all is counted.

    ``usual_s``: p95 of a kind's run; ``at``: of the newest; ``uncounted_at``: what it left out.
    """

    minutes: Sequence[Minute] = ()
    recent: Sequence[KindCounts] = ()
    usual_s: Mapping[str, float | None] = field(default_factory=dict)
    at: datetime | None = None
    uncounted_at: datetime | None = None

    def blind_since(self, now: datetime) -> datetime | None:
        """From when on nothing is counted, if that is so long ago that no pace of now is known."""
        upto = self.minutes[-1].at if self.minutes else self.at
        return upto if upto and (now - upto).total_seconds() > LATE_S else None


@dataclass(frozen=True)
class Signs:
    """Who has signed as a worker since yesterday; ``all_known``: nobody who lives is missing.

    ``unconnected``: who signed a moment ago and has no connection, where that can be told;
    ``renewing``: who, elsewhere, signs no more and renews its leases.
    """

    workers: Sequence[Worker] = ()
    all_known: bool = True
    unconnected: frozenset[str] = frozenset()
    renewing: frozenset[str] = frozenset()

    def live(self, now: datetime) -> list[Worker]:
        """Who lives, a worker elsewhere with several sets of kinds once for each."""
        here = [one for one in self.workers if not self.is_cut_off(one)]
        return [one for one in here if one.is_live(now) or one.name in self.renewing]

    def is_cut_off(self, worker: Worker) -> bool:
        """Whether it signed of late, and has no connection to the database any more."""
        return worker.holder in self.unconnected

    def alive(self, now: datetime) -> int:
        """How many workers can run jobs."""
        return len({worker.holder for worker in self.live(now) if worker.slots})

    def slots(self, now: datetime) -> int:
        """How many jobs they can run at once."""
        return sum(worker.slots for worker in self.live(now))

    def working_since(self, now: datetime, gap_s: float) -> datetime | None:
        """Since when there has been somebody who could work, but for ``gap_s`` at a time.

        None: there is nobody now. Workers that die and come back again and again are one such time.
        """
        if not self.alive(now):
            return None
        began, gap = now, timedelta(seconds=gap_s)
        able = [(one.ended_by(now), one.first_seen_at) for one in self.workers if one.slots]
        for end, first_at in sorted(able, key=lambda span: span[0], reverse=True):
            if first_at and end >= began - gap:
                began = min(began, first_at)
        return began

    @property
    def deployed_at(self) -> datetime | None:
        """When the newest release was first seen, if another was seen before it."""
        found = deploy.latest((one.told.get("release"), one.first_seen_at) for one in self.workers)
        return found.at if found else None


@dataclass(frozen=True)
class Suspect:
    """A job whose worker was lost every time that it ran. ``asked_at``: to stop."""

    id: int
    kind: str
    status: str
    times: int
    holders: Sequence[str]
    first_at: datetime
    last_at: datetime
    asked_at: datetime | None = None


@dataclass(frozen=True)
class Group:
    """Failures with one cause. ``ever_at``: the first of those that there is still a row of;
    of some of them also before they were retried.

    ``kinds``: how many it has hit, ``hit``: some of them, ``kind``: the last. ``retrying``: jobs to
    be tried again, on hold or not, ``anew`` of them because a person retried them; ``lately``:
    those, and the failures of an hour.
    """

    fingerprint: str | None
    error_class: str | None
    kind: str
    kinds: int
    hit: Sequence[str]
    failed: int
    retrying: int
    last_at: datetime | None
    ever_at: datetime | None
    sample: int
    lately: int = 0
    anew: int = 0


@dataclass(frozen=True)
class Groups:
    """The first by ``failures.rank``; ``failed``: failures looked at, ``back_to``: since when.

    ``is_cut``: more jobs wait than were looked at.
    """

    groups: Sequence[Group] = ()
    failed: int = 0
    retrying: int = 0
    back_to: datetime | None = None
    is_cut: bool = False


@dataclass(frozen=True)
class System:
    """What the database itself is up to. ``hidden``: connections of others that we may not see."""

    days_ahead: int
    oldest_transaction_s: float | None
    hidden: int = 0
    role: str = ""


class NoWrites(StrEnum):
    """Why the database takes no writes."""

    STANDBY = "standby"  # it follows another server
    READ_ONLY = "read_only"  # default_transaction_read_only is on


@dataclass(frozen=True)
class Facts:
    """All that one verdict is made from; None: the part could not be read (see ``unread``).

    ``no_writes``: None where the database takes them, and where that could not be read.

    ``lock``: what is waited for; only looked for where nothing ends. ``handed_back``: jobs of kinds
    that no live worker runs; only looked for where something was put off.
    """

    now: datetime
    thresholds: Thresholds = field(default_factory=Thresholds)
    expected_workers: int = 0
    controls: Controls | None = None
    signs: Signs | None = None
    line: Line | None = None
    hour: Hour | None = None
    suspects: Sequence[Suspect] | None = None
    groups: Groups | None = None
    system: System | None = None
    lock: Blocker | None = None
    handed_back: Sequence[HandedBack] = ()
    unread: tuple[Unread, ...] = ()
    no_writes: NoWrites | None = None

    def age_s(self, at: datetime | None) -> float:
        """Seconds since then; 0 for None and for what is to come."""
        return max(0.0, (self.now - at).total_seconds()) if at else 0.0

    def ago(self, seconds: float) -> datetime:
        """The instant so long ago."""
        return self.now - timedelta(seconds=seconds)

    def of(self, part: str) -> Any:
        """A part by its name."""
        return getattr(self, part)
