"""Read the facts: a few statements, each bounded, each allowed to fail by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from queueapp.jobs import partitions
from queueapp.jobs.control import SWITCH_EVENTS, Controls, read_switches
from queueapp.jobs.database import Database, run
from queueapp.jobs.presence import Connections, cut_off
from queueapp.jobs.queries import priorities
from queueapp.jobs.queries.attempted import Reading, tried
from queueapp.jobs.queries.blocked import Blocker, blocker
from queueapp.jobs.queries.bounds import bound_reads
from queueapp.jobs.queries.clock import database_now
from queueapp.jobs.queries.oldest import transactions
from queueapp.jobs.verdict import statements, suspects
from queueapp.jobs.verdict.facts import (
    Facts,
    Group,
    Groups,
    Hour,
    Line,
    NoWrites,
    Suspect,
    System,
)
from queueapp.jobs.verdict.findings import Unread
from queueapp.jobs.verdict.handed_back import HandedBack, handed_back, may_be_there
from queueapp.jobs.verdict.kind_counts import KindCounts
from queueapp.jobs.verdict.line import line_of, overtaken, with_instants
from queueapp.jobs.verdict.minutes import LATE_S, instant, p95_s, read_minutes
from queueapp.jobs.verdict.signs import Signs
from queueapp.jobs.verdict.thresholds import Thresholds
from queueapp.jobs.why.facts import days_around, signs
from queueapp.jobs.why.words import span
from queueapp.jobs.workers import connections
from queueapp.jobs.workers.attendance import renewing

T = TypeVar("T")

# How long one reading may take; what takes longer is not known.
READING_S = 2.0
# Workers that have just begun, perhaps all at once, are given longer for the first one.
FIRST_LINE_S = 300.0
_LATE = f"{LATE_S / 60:.0f} minutes"
# Kinds on hold whose jobs are looked for.
MOST_HOLDS = 1_000


def read(
    database: Database,
    *,
    job_timeout_s: float,
    thresholds: Thresholds | None = None,
    expected_workers: int = 0,
    pooled: bool = False,
) -> Facts:
    """Read what the rules look at, in at most twelve statements, in a transaction that it bounds.

    ``job_timeout_s``: the time-out of jobs that name none, 0 for none. ``pooled``: workers come
    through a pooler, so that connections tell nothing of them.
    """
    reader = _Reader(database, job_timeout_s, pooled=pooled)
    return reader.read(thresholds or Thresholds(), expected_workers)


class _Reader:
    """One look, part by part; what a part needs of an earlier one is None if that failed."""

    def __init__(self, database: Database, job_timeout_s: float, *, pooled: bool) -> None:
        self._database = database
        self._job_timeout_s = job_timeout_s
        self._pooled = pooled
        self._unread: list[Unread] = []
        self._days: dict[str, datetime] = {}

    def read(self, thresholds: Thresholds, expected_workers: int) -> Facts:
        """Read all parts."""
        bound_reads(self._database, seconds=READING_S)
        first = self._part("switches", self._switches)
        now, controls, no_writes = first or (database_now(self._database), None, None)
        self._days = days_around(now, now)
        seen = self._part("workers", self._signs, now)
        if seen and not seen.all_known:
            self._unread.append(Unread("workers", "more have signed lately than are looked at"))
        line = self._part("line", self._line, _kinds_of(seen, controls, now), controls)
        if line and line.is_cut:
            most = f"the {priorities.MOST_PRIORITIES:,} highest priorities"
            self._unread.append(Unread("line", f"jobs wait at more than {most} that are looked at"))
        if seen and line:
            ends = {one.name: one.first_expiry for one in line.holders}
            seen = replace(
                seen,
                renewing=renewing(seen.workers, ends, now),
                overtaken=overtaken(seen, line, now),
            )
        running = [kind.kind for kind in line.kinds] if line else []
        hour = self._part("minutes", self._hour, running, thresholds.failing)
        facts = Facts(
            now=now,
            thresholds=thresholds,
            expected_workers=expected_workers,
            controls=controls,
            signs=seen,
            line=line,
            hour=hour,
            suspects=self._part("suspects", self._suspects),
            groups=self._part("failures", self._groups),
            system=self._part("system", self._system),
            lock=self._lock(line, now, thresholds),
            handed_back=self._handed_back(seen, controls, hour, now),
            no_writes=no_writes,
        )
        if late := _late(facts):
            self._unread.append(late)
        return replace(facts, unread=tuple(self._unread))

    def _part(self, name: str, part: Callable[..., T], *given: Any) -> T | None:
        reading: Reading[T] = tried(self._database, lambda _: part(*given), seconds=READING_S)
        if reading.reason:
            self._unread.append(Unread(name, reading.reason))
        return reading.value

    def _switches(self) -> tuple[datetime, Controls, NoWrites | None]:
        row: Any = run(self._database, statements.SWITCHES, switches=SWITCH_EVENTS, since=None)[0]
        no_writes = NoWrites.READ_ONLY if row.read_only else None
        if row.in_recovery:
            no_writes = NoWrites.STANDBY
        return row.now, read_switches(row.switches or ()), no_writes

    def _signs(self, now: datetime) -> Signs:
        found, all_known = signs(self._database, now)
        # Where it cannot be told who is connected, a sign is enough.
        links: Reading[Connections] = tried(
            self._database,
            lambda _: connections(self._database, pooled=self._pooled),
            seconds=READING_S,
        )
        return Signs(found, all_known, cut_off(found, links.value, now))

    def _line(self, kinds: Sequence[str] | None, controls: Controls | None) -> Line:
        row: Any = run(
            self._database,
            statements.LINE,
            kinds=None if kinds is None else list(kinds),
            held=list(controls.held_kinds)[:MOST_HOLDS] if controls else [],
            job_timeout=self._job_timeout_s,
            priorities=priorities.MOST_PRIORITIES + 1,
            **self._near,
        )[0]
        return line_of(row)

    def _hour(self, running: Sequence[str], failing: float) -> Hour:
        given = {"running": list(running), "failing": failing, **self._near}
        row: Any = run(self._database, statements.MINUTES, **given)[0]
        lines = row.minutes or ()
        return Hour(
            read_minutes(lines, row.uncounted_at),
            [_of_kind(each) for each in row.recent or ()],
            {
                kind: p95_s({int(bucket): int(n) for bucket, n in buckets.items()})
                for kind, buckets in (row.runs or {}).items()
            },
            instant(lines[-1]["at"]) if lines else None,
            row.uncounted_at,
        )

    def _suspects(self) -> list[Suspect]:
        return [
            Suspect(**row._mapping) for row in run(self._database, suspects.SUSPECTS, **self._near)
        ]

    def _groups(self) -> Groups:
        row: Any = run(self._database, statements.GROUPS_OF, **self._near)[0]
        groups = [with_instants(Group, each, "last_at", "ever_at") for each in row.groups or ()]
        return Groups(groups, row.failed, row.retrying, row.back_to, row.is_cut)

    def _handed_back(
        self, seen: Signs | None, controls: Controls | None, hour: Hour | None, now: datetime
    ) -> Sequence[HandedBack]:
        """Jobs of kinds that nobody runs who lives; asked where something was put off of late."""
        if seen is None or not (seen.alive(now) and seen.all_known):
            return ()
        if controls is None or hour is None or not may_be_there(hour.minutes, now):
            return ()
        known = {kind for one in seen.live(now) if one.slots for kind in one.kinds}
        known |= {*controls.held_kinds}
        found = self._part(
            "handed back",
            lambda: handed_back(self._database, known=sorted(known), **self._near),
        )
        return found or ()

    def _system(self) -> System:
        open_ = transactions(self._database)
        days_ahead = partitions.days_ahead(self._database)
        return System(days_ahead, open_.oldest_s, open_.hidden, open_.role)

    def _lock(self, line: Line | None, now: datetime, limits: Thresholds) -> Blocker | None:
        """Who keeps us waiting; it is asked where nothing ends, or the line cannot be read."""
        ended_at = line.ended_at if line else None
        if line and ended_at and (now - ended_at).total_seconds() <= limits.quiet:
            return None
        if line and not line.heads and not line.running:
            return None
        return tried(self._database, blocker, seconds=READING_S).value

    @property
    def _near(self) -> dict[str, datetime]:
        return {name: self._days[name] for name in ("lately", "tomorrow")}


def _kinds_of(seen: Signs | None, controls: Controls | None, now: datetime) -> list[str] | None:
    """The kinds that live workers run and nobody holds; None where that is not known."""
    known = seen.live(now) if seen and seen.all_known else []
    live = [worker for worker in known if worker.slots]
    if not live:
        return None
    held = controls.held_kinds if controls else ()
    return sorted({kind for worker in live for kind in worker.kinds} - {*held})


def _late(facts: Facts) -> Unread | None:
    """The minute's lines, where they should be there and are not, or do not tell all."""
    if facts.signs is None or facts.hour is None:
        return None
    live = facts.signs.live(facts.now)
    since = min((one.first_seen_at for one in live if one.first_seen_at), default=None)
    at = facts.hour.at
    is_first = since is not None and (at is None or at < since)
    if facts.age_s(since) <= (FIRST_LINE_S if is_first else LATE_S):
        return None
    if at is None or facts.age_s(at) > LATE_S:
        if all(one.is_elsewhere for one in live):
            return Unread("minutes", "no `flask work` is alive to count what ends")
        return Unread("minutes", f"no worker has written the minute's statistics for {_LATE}")
    uncounted_s = facts.age_s(facts.hour.uncounted_at)
    if uncounted_s <= LATE_S:
        return None
    return Unread(
        "minutes",
        f"what has happened for {span(uncounted_s)} is not counted yet: the workers cannot keep up",
    )


def _of_kind(found: dict[str, Any]) -> KindCounts:
    ended_in = [instant(at) for at in found["ended_in"] or ()]
    return with_instants(KindCounts, {**found, "ended_in": ended_in}, "bad_at")
