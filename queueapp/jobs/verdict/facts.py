"""What the rules look at: the state of the queue at one instant, each part read or not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from queueapp.jobs.control import Controls
from queueapp.jobs.queries.blocked import Blocker
from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.verdict.findings import Unread
from queueapp.jobs.verdict.handed_back import HandedBack
from queueapp.jobs.verdict.kind_counts import KindCounts
from queueapp.jobs.verdict.minutes import LATE_S, Minute
from queueapp.jobs.verdict.signs import Signs
from queueapp.jobs.verdict.thresholds import Thresholds


@dataclass(frozen=True)
class Head:
    """The head of a priority's line of due jobs; ``jobs`` stops one past ``most``.

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
    most: int = COUNT_LIMIT


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
    """Due jobs of a kind on hold, moved to held or not yet. ``is_least``: there may be more."""

    kind: str
    jobs: int
    at: datetime
    is_least: bool = False


@dataclass(frozen=True)
class Line:
    """What waits and what runs. ``ended_at``: when an attempt last ended, None: none is known.

    ``is_cut``: at lower priorities than were looked at jobs may wait as well. ``lapsed``: of whom a
    sweeper took leases of late, and when the last of those ran out.
    """

    heads: Sequence[Head] = ()
    running: int = 0
    overdue: int = 0
    first_expiry: datetime | None = None
    highest: int | None = None
    holders: Sequence[Holding] = ()
    kinds: Sequence[Running] = ()
    held: Sequence[HeldKind] = ()
    ended_at: datetime | None = None
    lapsed: Mapping[str, datetime] = field(default_factory=dict)
    is_cut: bool = False

    @property
    def due(self) -> int:
        """Jobs that could start now."""
        return sum(head.jobs for head in self.heads)

    @property
    def is_least(self) -> bool:
        """Whether more may be due than ``due`` says."""
        return self.is_cut or any(head.jobs > head.most for head in self.heads)

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
