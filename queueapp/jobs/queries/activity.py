"""What has been happening: throughput, the longest runners, the newest failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.database import Database, run
from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.status import FINAL, Status

# The newest jobs of one outcome that the throughput reads; older minutes are then not known.
READ_LIMIT = 50_000
MINUTES = 15

_FAILED_SINCE = """
SELECT count(*) AS failed FROM (
  SELECT 1 FROM jobs
  WHERE status = 'failed' AND finished_at > statement_timestamp() - %(span)s::interval
  ORDER BY finished_at DESC LIMIT %(bound)s
) bounded"""

_LONGEST_RUNNING = """
SELECT id, kind, priority, attempts, max_attempts, locked_by, claimed_at, started_at,
  lease_expires_at, cancel_requested_at, progress
FROM jobs WHERE status = 'running' ORDER BY claimed_at, id LIMIT %(limit)s"""

_NEWEST_FAILURES = """
SELECT id, kind, priority, attempts, max_attempts, error_class, finished_at
FROM jobs WHERE status = 'failed' AND finished_at IS NOT NULL
ORDER BY finished_at DESC, id DESC LIMIT %(limit)s"""

_THROUGHPUT = " UNION ALL ".join(
    f"""
SELECT '{status}' AS status, floor(extract(epoch FROM finished_at) / 60)::bigint AS minute,
  count(*) AS jobs, min(finished_at) AS earliest
FROM (
  SELECT finished_at FROM jobs
  WHERE status = '{status}' AND finished_at >= %(since)s AND finished_at < 'infinity'
  ORDER BY finished_at DESC LIMIT %(limit)s
) {status} GROUP BY 2"""
    for status in FINAL
)


@dataclass(frozen=True)
class Outcomes:
    """How many jobs ended in one minute, by status; None: not counted (see ``Throughput.cut``)."""

    minute: datetime
    counts: dict[Status, int | None]


@dataclass(frozen=True)
class Throughput:
    """The last minutes, oldest first; the last one is still going on.

    ``cut``: the outcomes of which only the newest ``READ_LIMIT`` jobs were counted.
    """

    minutes: list[Outcomes]
    cut: tuple[Status, ...]


def failed_since(database: Database, span: timedelta) -> int:
    """How many jobs failed for good within ``span``, counted up to COUNT_LIMIT + 1."""
    failed: int = run(database, _FAILED_SINCE, span=span, bound=COUNT_LIMIT + 1)[0].failed
    return failed


def longest_running(database: Database, limit: int = 8) -> Sequence[Row[Any]]:
    """The running jobs that were claimed first."""
    return run(database, _LONGEST_RUNNING, limit=limit)


def newest_failures(database: Database, limit: int = 8) -> Sequence[Row[Any]]:
    """The jobs that failed last, without their error texts."""
    return run(database, _NEWEST_FAILURES, limit=limit)


def throughput(database: Database, now: datetime, *, limit: int = READ_LIMIT) -> Throughput:
    """Jobs ended in each of the last ``MINUTES`` minutes, the current one included.

    ``now``: the database's clock. At most ``limit`` jobs of each outcome are read, newest first.
    """
    first = now.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES - 1)
    rows = run(database, _THROUGHPUT, since=first, limit=limit)
    known_from = {status: _known_from(rows, status, first, limit) for status in FINAL}
    found = {(row.status, row.minute): row.jobs for row in rows}
    minutes = [first + timedelta(minutes=passed) for passed in range(MINUTES)]
    return Throughput(
        [_outcomes(minute, found, known_from) for minute in minutes],
        tuple(status for status in FINAL if known_from[status] > first),
    )


def _known_from(rows: Sequence[Row[Any]], status: Status, first: datetime, limit: int) -> datetime:
    """The first minute that was counted whole: ``first`` unless the reading stopped short of it."""
    mine = [row for row in rows if row.status == status]
    if sum(row.jobs for row in mine) < limit:
        return first
    # The minute in which the reading stopped is not whole; the one after it is.
    stopped: datetime = min(row.earliest for row in mine).astimezone(UTC)
    return stopped.replace(second=0, microsecond=0) + timedelta(minutes=1)


def _outcomes(
    minute: datetime, found: dict[tuple[str, int], int], known_from: dict[Status, datetime]
) -> Outcomes:
    number = int(minute.timestamp()) // 60
    return Outcomes(
        minute,
        {
            status: found.get((status, number), 0) if minute >= known_from[status] else None
            for status in FINAL
        },
    )
