"""The workers, without a table of them: from their signs in the ledger, leases, and connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from queueapp.errors import WorkerNotFound
from queueapp.jobs import presence
from queueapp.jobs.database import Database, connection_of, run
from queueapp.jobs.failure import printable
from queueapp.jobs.presence import LIVE_S, Connections, connections_among
from queueapp.jobs.queries import EventFilter, list_events
from queueapp.jobs.status import Status
from queueapp.jobs.why import statement
from queueapp.jobs.why.facts import signs
from queueapp.jobs.workers import statements
from queueapp.jobs.workers.attendance import (
    Attendance,
    Holding,
    Longest,
    State,
    attendances,
    why_not_drained,
)

__all__ = [
    "LIVE_S",
    "LONGEST_NAME",
    "MOST_HELD",
    "MOST_RUNNING",
    "MOST_WORKERS",
    "Attendance",
    "Connections",
    "Results",
    "Roll",
    "State",
    "call",
    "connections",
    "held_by",
    "results_of",
    "why_not_drained",
]

MOST_RUNNING = statement.MOST_RUNNING
MOST_WORKERS = statement.MOST_WORKERS
# As many of one worker's jobs are shown, and released at once.
MOST_HELD = 500
# More characters than any worker's name has.
LONGEST_NAME = 500
_RESULTS_AMONG = 100

ON_SQLITE = "SQLite keeps no list of who has the file open"


@dataclass(frozen=True)
class Roll:
    """Every worker that is known of at ``now``, the stale ones first.

    ``workers_cut``: there were more signs than are read; ``running_cut``: more running jobs.
    """

    now: datetime
    workers: Sequence[Attendance]
    connections: Connections
    workers_cut: bool
    running_cut: bool

    def named(self, name: str) -> Attendance | None:
        """The worker of this name."""
        return next((worker for worker in self.workers if worker.name == name), None)

    def known(self, name: str) -> Attendance:
        """The same. Raises WorkerNotFound when nobody is called so; ``name`` may be any text."""
        found = self.named(name)
        if found is None:
            said = printable(name[:LONGEST_NAME])
            raise WorkerNotFound(
                f"no worker '{said}' holds a job or has been heard of since yesterday"
            )
        return found


def call(database: Database, now: datetime, connections: Connections) -> Roll:
    """Read who is there. Bounded: MOST_WORKERS names since yesterday beside those that live, and
    MOST_RUNNING leases.
    """
    found, _ = signs(database, now)
    rows = run(database, statements.HOLDERS, most_running=MOST_RUNNING)
    return Roll(
        now,
        attendances(found, {row.name: _holding(row) for row in rows}, connections, now),
        connections,
        workers_cut=len(found) >= statement.MOST_WORKERS,
        running_cut=sum(row.held for row in rows) >= MOST_RUNNING,
    )


def connections(database: Database, *, pooled: bool = False) -> Connections:
    """The queue's connections of this database by name. ``pooled``: they come through a pooler."""
    if connection_of(database).dialect.name != "postgresql":
        return Connections({}, ON_SQLITE)
    rows = run(database, presence.CONNECTIONS, most=presence.MOST_CONNECTIONS)
    return connections_among([dict(row._mapping) for row in rows], pooled=pooled)


def held_by(database: Database, name: str, *, limit: int = MOST_HELD) -> Sequence[Row[Any]]:
    """The jobs that ``name`` holds, the oldest claim first, of the MOST_RUNNING oldest of all."""
    return run(database, statements.HELD, name=name, most_running=MOST_RUNNING, limit=limit)


@dataclass(frozen=True)
class Results:
    """How a worker's last attempts ended, newest first. ``cut``: not all lines were read."""

    rows: Sequence[Row[Any]]
    cut: bool


def results_of(database: Database, name: str, *, limit: int = 20) -> Results:
    """The last results of ``name``, among its newest lines of the newest SCAN_LIMIT of all."""
    page = list_events(database, EventFilter(actor=name), limit=_RESULTS_AMONG)
    ended = [row for row in page.rows if row.job_id and row.from_status == Status.RUNNING]
    return Results(ended[:limit], page.older is not None)


def _holding(row: Row[Any]) -> Holding:
    longest = Longest(row.longest_id, row.longest_kind, row.longest_at)
    return Holding(row.held, row.started, row.overdue, row.lease_ends_at, longest)
