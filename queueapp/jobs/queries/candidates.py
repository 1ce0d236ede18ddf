"""Which ids may match a filter, where an index can say so within a bound.

Each statement reads one index from its beginning and stops one past ``SCAN_LIMIT``. ORDER BY names
the index: without it a plan may begin at the table's old end and walk through all that is finished.
"""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.database import Database, run
from queueapp.jobs.queries.bounds import SCAN_LIMIT
from queueapp.jobs.queries.filters import JobFilter, View
from queueapp.jobs.status import FINAL, Status

_QUEUED = """
SELECT id FROM jobs WHERE status = 'queued'
ORDER BY priority DESC, available_at, created_at, id LIMIT %(limit)s"""

_RUNNING = """
SELECT id FROM jobs WHERE status = 'running' ORDER BY claimed_at, id LIMIT %(limit)s"""

_FINAL = """
SELECT id FROM jobs WHERE status = '{status}' AND finished_at IS NOT NULL
ORDER BY finished_at DESC, id DESC LIMIT %(limit)s"""

# Jobs held one by one are in no index: they are looked for among the newest only.
_HELD = """
(SELECT id FROM jobs WHERE status = 'held' AND held_for = 'kind' ORDER BY kind, id LIMIT %(limit)s)
UNION ALL
SELECT id FROM (SELECT id, status, held_for FROM jobs ORDER BY id DESC LIMIT %(scan)s) newest
WHERE status = 'held' AND held_for = 'job'"""

_WAITING = """
WITH RECURSIVE {priorities}
SELECT j.id FROM priorities p CROSS JOIN LATERAL (
  SELECT id FROM jobs
  WHERE status = 'queued' AND priority = p.priority AND available_at {side} statement_timestamp()
  ORDER BY available_at, created_at, id LIMIT %(limit)s
) j LIMIT %(limit)s"""

_FAILED_ALIKE = """
SELECT id FROM jobs WHERE status = 'failed' AND error_fingerprint = %(fingerprint)s
ORDER BY finished_at DESC, id DESC LIMIT %(limit)s"""

# The unique index begins with the producer: without one, each producer is asked in turn.
_KEYED = """
WITH RECURSIVE producers AS (
  (SELECT producer FROM jobs WHERE idempotency_key IS NOT NULL ORDER BY producer LIMIT 1)
  UNION ALL
  SELECT (SELECT j.producer FROM jobs j WHERE j.idempotency_key IS NOT NULL
          AND j.producer > p.producer ORDER BY j.producer LIMIT 1)
  FROM producers p WHERE p.producer IS NOT NULL
)
SELECT j.id FROM producers p JOIN LATERAL (
  SELECT id FROM jobs WHERE producer = p.producer AND idempotency_key = %(key)s
) j ON true LIMIT %(limit)s"""

_KEYED_BY = """
SELECT id FROM jobs
WHERE producer = %(producer)s AND idempotency_key = %(key)s LIMIT %(limit)s"""

_OF_STATUS = {
    Status.QUEUED: _QUEUED,
    Status.RUNNING: _RUNNING,
    Status.HELD: _HELD,
    **{status: _FINAL.format(status=status) for status in FINAL},
}
_OF_VIEW = {
    View.DUE: _WAITING.format(priorities=PRIORITIES, side="<="),
    View.SCHEDULED: _WAITING.format(priorities=PRIORITIES, side=">"),
    View.RETRYING: _WAITING.format(priorities=PRIORITIES, side=">"),
}


@dataclass(frozen=True)
class Candidates:
    """Every id that may match, newest first.

    ``partial``: some were looked for among the newest rows only.
    """

    ids: list[int]
    partial: bool = False


def find_candidates(database: Database, where: JobFilter) -> Candidates | None:
    """Ids that may match ``where``; None when no index serves it or too many rows are in it."""
    statement = _statement(where)
    if statement is None:
        return None
    rows = run(
        database,
        statement,
        limit=SCAN_LIMIT + 1,
        scan=SCAN_LIMIT,
        producer=where.producer,
        key=where.idempotency_key,
        fingerprint=where.fingerprint,
    )
    if len(rows) > SCAN_LIMIT:
        return None
    partial = statement is _HELD and _has_more_rows_than(database, SCAN_LIMIT)
    return Candidates(sorted((row.id for row in rows), reverse=True), partial)


def _statement(where: JobFilter) -> str | None:
    if where.idempotency_key is not None:
        return _KEYED if where.producer is None else _KEYED_BY
    if where.view is not None:
        return _OF_VIEW[where.view]
    if len(where.status) != 1:
        return None
    if where.fingerprint is not None and where.status[0] is Status.FAILED:
        return _FAILED_ALIKE
    return _OF_STATUS[where.status[0]]


def _has_more_rows_than(database: Database, count: int) -> bool:
    statement = "SELECT id FROM jobs ORDER BY id DESC OFFSET %(count)s LIMIT 1"
    return bool(run(database, statement, count=count))
