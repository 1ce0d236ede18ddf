"""Which ids may match a filter, where an index can say so within a bound.

Each statement reads one index from its beginning and stops one past ``SCAN_LIMIT``. ORDER BY names
the index: without it a plan may begin at the table's old end and walk through all that is finished.
Ranges stand in every statement whose index has their column, open where nothing is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.database import Database, run_ids
from queueapp.jobs.queries.bounds import LARGEST_ID, SCAN_LIMIT
from queueapp.jobs.queries.filters import JobFilter, Span, View
from queueapp.jobs.queries.touched import touched_by
from queueapp.jobs.status import FINAL, Status

_QUEUED = """
SELECT id FROM jobs
WHERE status = 'queued' AND priority BETWEEN %(priority_min)s AND %(priority_max)s
ORDER BY priority DESC, available_at, created_at, id LIMIT %(limit)s"""

_RUNNING = """
SELECT id FROM jobs WHERE status = 'running' ORDER BY claimed_at, id LIMIT %(limit)s"""

# Its index is as large as all slots together: what one worker holds is read out of it.
_HELD_BY = """
SELECT id FROM jobs WHERE status = 'running'
  AND locked_by IN (%(worker)s::text, 'worker:' || %(worker)s::text)
ORDER BY claimed_at, id LIMIT %(limit)s"""

_FINISHED = "finished_at BETWEEN %(finished_from)s::timestamptz AND %(finished_to)s::timestamptz"
_FINAL = f"""
SELECT id FROM jobs WHERE status = '{{status}}' AND finished_at IS NOT NULL AND {_FINISHED}
ORDER BY finished_at DESC, id DESC LIMIT %(limit)s"""

# With their kind, and by themselves: an index for each.
_HELD = """
(SELECT id FROM jobs WHERE status = 'held' AND held_for = 'kind' ORDER BY kind, id LIMIT %(limit)s)
UNION ALL
(SELECT id FROM jobs WHERE status = 'held' AND held_for = 'job' ORDER BY kind, id LIMIT %(limit)s)
LIMIT %(limit)s"""

_WAITING = f"""
WITH RECURSIVE {PRIORITIES}
SELECT j.id FROM priorities p CROSS JOIN LATERAL (
  SELECT id FROM jobs
  WHERE status = 'queued' AND priority = p.priority {{side}}
    AND available_at BETWEEN %(available_from)s::timestamptz AND %(available_to)s::timestamptz
  ORDER BY available_at, created_at, id LIMIT %(limit)s
) j WHERE p.priority BETWEEN %(priority_min)s AND %(priority_max)s LIMIT %(limit)s"""

_FAILED_ALIKE = f"""
SELECT id FROM jobs
WHERE status = 'failed' AND error_fingerprint = %(fingerprint)s AND {_FINISHED}
ORDER BY finished_at DESC, id DESC LIMIT %(limit)s"""

# Of a smallint.
LEAST, MOST = -(2**15), 2**15 - 1

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
    View.DUE: _WAITING.format(side="AND available_at <= statement_timestamp()"),
    View.SCHEDULED: _WAITING.format(side="AND available_at > statement_timestamp()"),
    View.RETRYING: _WAITING.format(side="AND available_at > statement_timestamp()"),
}
_DUE_WITHIN = _WAITING.format(side="")

_NONE = "SELECT id FROM jobs WHERE false"
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Candidates:
    """Every id that may match, newest first.

    ``many``: there are more than SCAN_LIMIT, and ``ids`` are no more than some of them; all are
    from ``lowest`` to ``highest``.
    """

    ids: list[int]
    many: bool = False
    lowest: int = 0
    highest: int = LARGEST_ID


def find_candidates(database: Database, where: JobFilter) -> Candidates | None:
    """Ids that may match ``where``; None when no index serves it."""
    touched = _of_operation(database, where.operation) if where.operation is not None else None
    if touched is not None and not touched.many:
        return touched
    statement = _statement(where)
    if statement is None:
        return touched
    found = run_ids(database, statement, **_parameters(where))
    ids, many = sorted(found, reverse=True), len(found) > SCAN_LIMIT
    bounds = (touched.lowest, touched.highest) if touched else ()
    return Candidates(ids, many, *bounds)


def bounds_of(database: Database, where: JobFilter) -> tuple[int, int]:
    """The lowest and the highest id that may match, where lines of the ledger tell."""
    found = _of_operation(database, where.operation) if where.operation is not None else None
    return (found.lowest, found.highest) if found else (0, LARGEST_ID)


def _of_operation(database: Database, operation: str) -> Candidates | None:
    found = touched_by(database, operation, SCAN_LIMIT + 1)
    if found is None:
        return None
    ids = sorted(found.ids, reverse=True)
    return Candidates(ids, many=not found.whole, lowest=found.lowest, highest=found.highest)


def _parameters(where: JobFilter) -> dict[str, Any]:
    exactly = where.priority
    least = where.priority_min if exactly is None else exactly
    most = where.priority_max if exactly is None else exactly
    return {
        "limit": SCAN_LIMIT + 1,
        "producer": where.producer,
        "key": where.idempotency_key,
        "fingerprint": where.fingerprint,
        "worker": where.worker,
        "priority_min": LEAST if least is None else least,
        "priority_max": MOST if most is None else most,
        **_span("available", where.available),
        **_span("finished", where.finished),
    }


def _span(name: str, span: Span) -> dict[str, Any]:
    """Both ends included: a row that says 'infinity' is in a range without an end."""
    end = "infinity" if span.end is None else span.end - _MOMENT
    return {f"{name}_from": span.start or "-infinity", f"{name}_to": end}


def _statement(where: JobFilter) -> str | None:
    if where.idempotency_key is not None:
        return _KEYED if where.producer is None else _KEYED_BY
    if where.worker is not None:
        return _HELD_BY
    if where.view is not None:
        return _OF_VIEW[where.view]
    if where.finished:
        return _ended(where.fingerprint is not None, where.status or FINAL)
    if len(where.status) != 1:
        return None
    return _of_status(where, where.status[0])


def _of_status(where: JobFilter, status: Status) -> str:
    if where.fingerprint is not None and status is Status.FAILED:
        return _FAILED_ALIKE
    if where.available and status is Status.QUEUED:
        return _DUE_WITHIN
    return _OF_STATUS[status]


@cache
def _ended(alike: bool, among: tuple[Status, ...]) -> str:
    """The statement for jobs that ended within a span; ``alike``: with one fingerprint."""
    final = [status for status in FINAL if status in among]
    if alike and final == [Status.FAILED]:
        return _FAILED_ALIKE
    parts = [f"SELECT id FROM ({_OF_STATUS[status]}) {status}" for status in final]
    return " UNION ALL ".join(parts) if parts else _NONE
