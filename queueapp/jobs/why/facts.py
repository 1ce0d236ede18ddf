"""What the rules look at: the facts about one job at one instant, and how they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from queueapp.errors import JobNotFound
from queueapp.jobs.control import SWITCH_EVENTS, Controls, read_switches
from queueapp.jobs.database import Database, run
from queueapp.jobs.presence import (
    LIVE_S,
    MOST_CONNECTIONS,
    Worker,
    connections_among,
    cut_off,
    worker_of,
)
from queueapp.jobs.queries.bounds import LARGEST_ID
from queueapp.jobs.queries.drain import RATE_LINES, instant, rate_of
from queueapp.jobs.why import statement


@dataclass(frozen=True)
class Busy:
    """Who holds running jobs: how many have begun, whether one is of the job's own kind.

    ``longest``: ``id``, ``kind`` and ``started_at`` of the one that began first.
    """

    name: str
    started: int
    has_kind: bool
    longest: Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """What is known of an event of the job; ``available_at`` only where it was written."""

    id: int
    event: str
    to_status: str | None
    actor: str
    reason: str | None
    created_at: datetime
    available_at: datetime | None


@dataclass(frozen=True)
class Facts:
    """All that one answer is made from, of one instant.

    ``ahead`` stops at AHEAD_LIMIT + 1. ``claims_per_s``: None when nothing is known of the last
    minutes. ``last_claim_s``: seconds since anything was claimed, None when that is not known.
    ``usual_s``: in which time 95 of 100 of the kind's runs ended, None without any.
    ``unconnected``: who signed a moment ago and has no connection, where that can be told.
    """

    job: Any
    now: datetime
    lines: Sequence[Line]
    controls: Controls
    workers: Sequence[Worker]
    holders: Sequence[Busy]
    ahead: int | None
    claims_per_s: float | None
    last_claim_s: float | None
    usual_s: float | None
    runs: int
    job_timeout_s: float
    unconnected: frozenset[str] = frozenset()

    @property
    def knows_workers(self) -> bool:
        """Whether every worker was looked at."""
        return len(self.workers) < statement.MOST_WORKERS

    @property
    def live(self) -> list[Worker]:
        """The workers that live: those that signed of late and are connected."""
        here = [worker for worker in self.workers if worker.holder not in self.unconnected]
        return [worker for worker in here if worker.is_live(self.now)]

    @property
    def keepers(self) -> list[Worker]:
        """Those of them that take back what ran out, and bring back what was held."""
        return [worker for worker in self.live if not worker.is_elsewhere]

    @property
    def able(self) -> list[Worker]:
        """Those of them that can run the job's kind."""
        return [w for w in self.live if w.slots > 0 and self.job.kind in w.kinds]

    @property
    def waited_s(self) -> float:
        """For how long the job has been there and due; negative before it is due."""
        since = max(self.job.available_at, self.job.created_at)
        return float((self.now - since).total_seconds())


def read(database: Database, job_id: int, *, job_timeout_s: float, pooled: bool = False) -> Facts:
    """Read what the rules need. Raises JobNotFound."""
    first: Any = ()
    if 0 < job_id <= LARGEST_ID:
        first = run(database, statement.SWITCHES, job_id=job_id, switches=SWITCH_EVENTS)
    rows: Any = first and run(
        database,
        statement.FACTS,
        job_id=job_id,
        events=statement.EVENTS,
        most_workers=statement.MOST_WORKERS,
        most_running=statement.MOST_RUNNING,
        most_ahead=statement.AHEAD_LIMIT + 1,
        most=MOST_CONNECTIONS,
        tail=statement.TAIL,
        rate_lines=RATE_LINES,
        run_lines=statement.RUN_LINES,
        **days_around(first[0].now, first[0].created_at),
    )
    if not rows:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    row = rows[0]
    claimed_at = instant(row.last_claim)
    runs = {int(bucket): int(n) for bucket, n in (row.runs or {}).items()}
    workers = [worker_of(each) for each in row.workers or ()]
    links = connections_among(row.connections or (), pooled=pooled)
    return Facts(
        job=row,
        now=row.now,
        lines=[_line(each) for each in row.events or ()],
        controls=read_switches(first[0].switches or ()),
        workers=workers,
        holders=[Busy(**each) for each in row.holders or ()],
        ahead=row.ahead,
        claims_per_s=rate_of(row.rates or (), row.now),
        last_claim_s=max(0.0, (row.now - claimed_at).total_seconds()) if claimed_at else None,
        usual_s=_usual(runs),
        runs=sum(runs.values()),
        job_timeout_s=job_timeout_s if row.timeout_s is None else row.timeout_s,
        unconnected=cut_off(workers, links, row.now),
    )


def days_around(now: datetime, born: datetime) -> dict[str, datetime]:
    """The whole days, in UTC, from and to which the ledger is read."""
    today, first = (
        at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) for at in (now, born)
    )
    day = timedelta(days=1)
    return {"lately": today - day, "born": first - day, "tomorrow": today + 2 * day}


def signs(database: Database, now: datetime) -> tuple[list[Worker], bool]:
    """The last sign of each worker since yesterday, and whether everybody who lives is there.

    Short-lived workers may leave more than MOST_WORKERS names: then of the others only some.
    """
    near = {name: day for name, day in days_around(now, now).items() if name != "born"}
    rows = run(database, statement.WORKERS, most_workers=statement.MOST_WORKERS, **near)
    found = [worker_of(row._asdict()) for row in rows]
    if len(found) < statement.MOST_WORKERS:
        return found, True
    most = statement.MOST_SIGNS
    [row] = run(database, statement.RECENT, most_signs=most, live_s=LIVE_S, **near)
    recent = {sign["name"]: worker_of(sign) for sign in row.signs or ()}
    return [*recent.values(), *(one for one in found if one.name not in recent)], row.whole


def _line(found: Mapping[str, Any]) -> Line:
    at = {name: instant(found[name]) for name in ("created_at", "available_at")}
    return Line(**{**found, **at})


def _usual(runs: Mapping[int, int]) -> float | None:
    """The upper end of the bucket that the 95th of 100 runs is in, in seconds."""
    wanted, seen = math.ceil(sum(runs.values()) * 0.95), 0
    for bucket in sorted(runs):
        seen += runs[bucket]
        if seen >= wanted:
            return float(2.0**bucket / 1000)
    return None
