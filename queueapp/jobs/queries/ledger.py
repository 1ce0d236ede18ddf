"""The ledger: the events of one job, and the log of everything.

The log is ordered by (xid, id), newest first, without the bound of the feed: it may show a line
before an earlier transaction has committed. A reader that looks again sees both, once each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from queueapp.jobs.database import Database, run
from queueapp.jobs.models import JobEvent
from queueapp.jobs.queries.bounds import LARGEST_ID, SCAN_LIMIT
from queueapp.jobs.queries.filters import ANY_TIME, Span
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
    created: Span = ANY_TIME


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
  WHERE {{source}}{{below}}{{days}}
  ORDER BY {{order}} LIMIT %(scan)s
) newest WHERE true{{filters}} LIMIT %(limit)s"""

_SCANNED_TO = """
SELECT xid::text AS xid, id, created_at FROM job_events e WHERE true{below}{days}
ORDER BY e.xid DESC, e.id DESC OFFSET %(skip)s LIMIT 2"""

_BELOW = " AND (e.xid, e.id) < (%(xid)s::text::xid8, %(id)s)"
_BELOW_ID = " AND e.id < %(id)s"
# Whole days, which choose partitions.
_FROM_DAY = " AND created_at >= %(first_day)s::timestamptz"
_TO_DAY = " AND created_at < %(last_day)s::timestamptz"
# The last line of one day below a transaction.
_LINE_OF_DAY = """
SELECT xid::text AS xid, created_at FROM job_events e
WHERE (e.xid, e.id) < (%(xid)s::text::xid8, 0)
  AND created_at >= %(first_day)s::timestamptz AND created_at < %(last_day)s::timestamptz
ORDER BY e.xid DESC, e.id DESC LIMIT 1"""
_DAY = timedelta(days=1)
# A line is written some time after its transaction began, which gives it its place.
_SLACK = timedelta(minutes=5)
_TOP_XID = 2**63 - 1

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


def purge_of(database: Database, job_id: int) -> Row[Any] | None:
    """The line of a job's removal; None where it stands, or the ledger does not know it.

    After it there are lines of late results at most, which were refused.
    """
    if not 0 < job_id <= LARGEST_ID:
        return None
    newest = reversed(latest_events_of(database, job_id))
    return next((line for line in newest if line.event == Event.PURGED), None)


def last_failure(database: Database, job_id: int, *, limit: int = 200) -> Row[Any] | None:
    """The newest of the job's lines that has a traceback, cut to what a page can show."""
    rows = run(database, _LAST_FAILURE, job_id=job_id, limit=limit)
    return rows[0] if rows else None


def list_events(
    database: Database, where: EventFilter, *, before: Cursor | None = None, limit: int = 100
) -> EventPage:
    """List the log newest first, below ``before``.

    A filter that no index serves looks at the newest SCAN_LIMIT lines below it, in the days of a
    span that it names and from where its end is to be found.
    """
    by_job = where.job_id is not None
    if not by_job and where.created.end is not None:
        start = _place_of(database, where.created.end)
        before = min((c for c in (before, start) if c), key=_order, default=None)
    statement = _NEWEST.format(
        source="job_id = %(job_id)s" if by_job else "true",
        below=_below(before, by_job=by_job),
        days=_days(where.created),
        order="e.id DESC" if by_job else "e.xid DESC, e.id DESC",
        filters=_filters(where),
    )
    rows = run(database, statement, **_parameters(where, before), scan=SCAN_LIMIT, limit=limit + 1)
    if len(rows) > limit:
        return EventPage(rows[:limit], _cursor(rows[limit - 1]))
    if by_job or where == EventFilter():
        return EventPage(rows, None)
    older = _end_of_scan(database, where.created, before)
    return EventPage(rows, older, cut=older is not None)


def _end_of_scan(database: Database, span: Span, before: Cursor | None) -> Cursor | None:
    """Where the look at the newest lines ended, None if no line of ``span`` is beyond."""
    statement = _SCANNED_TO.format(below=_below(before, by_job=False), days=_days(span))
    place = {"xid": str(before.xid), "id": before.id} if before else {}
    rows = run(database, statement, skip=SCAN_LIMIT - 1, **place, **_bounds(span))
    if len(rows) < 2 or (span.start and rows[0].created_at < span.start - _SLACK):
        return None
    return _cursor(rows[0])


def _place_of(database: Database, at: datetime) -> Cursor | None:
    """A place with no line of before ``at`` above it, in its day; None where there is none.

    No index knows instants, but transactions follow the clock: a few dozen lines are looked at.
    """
    days = _bounds(Span(at, at + _SLACK))
    newest = run(database, _LINE_OF_DAY, xid=str(_TOP_XID), **days)
    if not newest or newest[0].created_at < at + _SLACK:
        return None
    lowest, highest = 0, int(newest[0].xid)
    if not highest:
        return None  # SQLite numbers no transactions
    while highest > lowest:
        middle = (lowest + highest + 1) // 2
        line = run(database, _LINE_OF_DAY, xid=str(middle), **days)
        if line and line[0].created_at >= at + _SLACK:
            highest = int(line[0].xid)
        else:
            lowest = middle
    return Cursor(highest, 0)


def _order(place: Cursor) -> tuple[int, int]:
    return place.xid, place.id


def _days(span: Span) -> str:
    return _FROM_DAY * (span.start is not None) + _TO_DAY * (span.end is not None)


def _bounds(span: Span) -> dict[str, Any]:
    """The days that have lines of ``span``."""
    bounds = {}
    if span.start is not None:
        bounds["first_day"] = _day_of(span.start)
    if span.end is not None:
        bounds["last_day"] = _day_of(span.end) + _DAY
    return bounds


def _day_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _below(before: Cursor | None, *, by_job: bool) -> str:
    if before is None:
        return ""
    return _BELOW_ID if by_job else _BELOW


def _filters(where: EventFilter) -> str:
    present = {"event": where.event, "kind": where.kind, "actor": where.actor}
    parts = [f" AND {name} = %({name})s" for name, value in present.items() if value]
    if where.created.start is not None:
        parts.append(" AND created_at >= %(since)s::timestamptz")
    if where.created.end is not None:
        parts.append(" AND created_at < %(until)s::timestamptz")
    return "".join(parts)


def _parameters(where: EventFilter, before: Cursor | None) -> dict[str, Any]:
    place = {"xid": str(before.xid), "id": before.id} if before else {}
    return {
        "job_id": where.job_id,
        "event": where.event,
        "kind": where.kind,
        "actor": where.actor,
        "since": where.created.start,
        "until": where.created.end,
        **_bounds(where.created),
        **place,
    }


def _cursor(row: Row[Any]) -> Cursor:
    return Cursor(int(row.xid), row.id)
