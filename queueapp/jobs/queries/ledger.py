"""The ledger: the events of one job, and the log of everything.

The log is ordered by (xid, id), newest first, without the bound of the feed: it may show a line
before an earlier transaction has committed. A reader that looks again sees both, once each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from queueapp.jobs.database import Database, run
from queueapp.jobs.models import JobEvent
from queueapp.jobs.queries.bounds import SCAN_LIMIT
from queueapp.jobs.queries.places import two_numbers
from queueapp.jobs.status import Event


@dataclass(frozen=True)
class Cursor:
    """A place in the log."""

    xid: int
    id: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read ``xid.id``; raises ValueError."""
        return cls(*two_numbers(text))

    def __str__(self) -> str:
        return f"{self.xid}.{self.id}"


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """What the log is narrowed to; empty fields narrow nothing."""

    event: Event | None = None
    job_id: int | None = None
    kind: str | None = None
    actor: str | None = None


@dataclass(frozen=True)
class EventPage:
    """One page of the log, newest first; ``older`` and ``cut`` as in ``Page``."""

    rows: Sequence[Row[Any]]
    older: Cursor | None
    cut: bool = False


# A list shows no data: it may hold a traceback of 64 KiB. ``xid`` leaves as text, so whatever sorts
# or compares it says ``e.xid``.
_LISTED = """id, xid::text AS xid, job_id, kind, scope, event, from_status, to_status, attempt,
  actor, left(reason, 1000) AS reason, created_at"""

_NEWEST = f"""
SELECT * FROM (
  SELECT {_LISTED} FROM job_events e
  WHERE {{source}}{{below}}
  ORDER BY {{order}} LIMIT %(scan)s
) newest WHERE true{{filters}} LIMIT %(limit)s"""

_SCANNED_TO = """
SELECT xid::text AS xid, id FROM job_events e WHERE true{below}
ORDER BY e.xid DESC, e.id DESC OFFSET %(skip)s LIMIT 2"""

_BELOW = " AND (e.xid, e.id) < (%(xid)s::text::xid8, %(id)s)"
_BELOW_ID = " AND e.id < %(id)s"

# The bodies stay in the database: only the newest traceback is shown, and it is read by itself.
_OF_JOB = """
SELECT id, event, from_status, to_status, attempt, lease_token, actor, left(reason, 2000) AS reason,
  CASE WHEN jsonb_typeof(data) <> 'object' THEN data
    WHEN data ? 'error_message' THEN (data - 'traceback')
      || jsonb_build_object('error_message', left(data->>'error_message', 500))
    ELSE data - 'traceback' END AS data, created_at
FROM job_events WHERE job_id = %(job_id)s ORDER BY id DESC LIMIT %(limit)s"""

_LAST_FAILURE = """
SELECT id, attempt, created_at, left(data->>'traceback', 70000) AS traceback FROM (
  SELECT id, attempt, created_at, data FROM job_events WHERE job_id = %(job_id)s
  ORDER BY id DESC LIMIT %(limit)s
) newest WHERE jsonb_typeof(data) = 'object' AND data ? 'traceback' ORDER BY id DESC LIMIT 1"""


def events_of(
    session: Session, job_id: int, *, after: int = 0, limit: int = 200
) -> Sequence[JobEvent]:
    """The job's own lines of the ledger, oldest first, with ids above ``after``."""
    stmt = (
        select(JobEvent)
        .where(JobEvent.job_id == job_id, JobEvent.id > after)
        .order_by(JobEvent.id)
        .limit(limit)
    )
    return session.scalars(stmt).all()


def latest_events_of(database: Database, job_id: int, *, limit: int = 200) -> list[Row[Any]]:
    """The job's newest lines, oldest first, without tracebacks."""
    return list(reversed(run(database, _OF_JOB, job_id=job_id, limit=limit)))


def last_failure(database: Database, job_id: int, *, limit: int = 200) -> Row[Any] | None:
    """The newest of the job's lines that has a traceback, cut to what a page can show."""
    rows = run(database, _LAST_FAILURE, job_id=job_id, limit=limit)
    return rows[0] if rows else None


def list_events(
    database: Database, where: EventFilter, *, before: Cursor | None = None, limit: int = 100
) -> EventPage:
    """List the log newest first, below ``before``.

    A filter that no index serves looks at the newest SCAN_LIMIT lines below it.
    """
    by_job = where.job_id is not None
    statement = _NEWEST.format(
        source="job_id = %(job_id)s" if by_job else "true",
        below=_below(before, by_job=by_job),
        order="e.id DESC" if by_job else "e.xid DESC, e.id DESC",
        filters=_filters(where),
    )
    rows = run(database, statement, **_parameters(where, before), scan=SCAN_LIMIT, limit=limit + 1)
    if len(rows) > limit:
        return EventPage(rows[:limit], _cursor(rows[limit - 1]))
    if by_job or where == EventFilter():
        return EventPage(rows, None)
    older = _end_of_scan(database, before)
    return EventPage(rows, older, cut=older is not None)


def _end_of_scan(database: Database, before: Cursor | None) -> Cursor | None:
    """Where the look at the newest lines ended, None if that was the beginning of the log."""
    statement = _SCANNED_TO.format(below=_below(before, by_job=False))
    place = {"xid": str(before.xid), "id": before.id} if before else {}
    rows = run(database, statement, skip=SCAN_LIMIT - 1, **place)
    return _cursor(rows[0]) if len(rows) == 2 else None


def _below(before: Cursor | None, *, by_job: bool) -> str:
    if before is None:
        return ""
    return _BELOW_ID if by_job else _BELOW


def _filters(where: EventFilter) -> str:
    present = {"event": where.event, "kind": where.kind, "actor": where.actor}
    return "".join(f" AND {name} = %({name})s" for name, value in present.items() if value)


def _parameters(where: EventFilter, before: Cursor | None) -> dict[str, Any]:
    place = {"xid": str(before.xid), "id": before.id} if before else {}
    return {
        "job_id": where.job_id,
        "event": where.event,
        "kind": where.kind,
        "actor": where.actor,
        **place,
    }


def _cursor(row: Row[Any]) -> Cursor:
    return Cursor(int(row.xid), row.id)
