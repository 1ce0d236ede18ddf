"""Operations page by page, the newest plan first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from queueapp.jobs.database import Database, run
from queueapp.jobs.operations.state import Operation, scope_of, told
from queueapp.jobs.queries.bounds import LARGEST_ID
from queueapp.jobs.queries.places import two_numbers
from queueapp.jobs.status import Event

# As ``state`` reads the lines of one: nothing was said of any before it was planned.
_LINES_OF_MANY = """
SELECT o.scope, e.id, e.event, e.actor, e.reason, e.created_at,
  CASE WHEN n.event IN ('op_batch', 'op_done') THEN e.data - 'jobs' ELSE e.data END AS data
FROM unnest(%(scopes)s::text[], %(planned)s::timestamptz[]) AS o(scope, planned_at)
CROSS JOIN unnest(
  ARRAY['op_planned', 'op_counted', 'op_begun', 'op_canary', 'op_batch', 'op_stopped', 'op_done']
) AS n(event)
CROSS JOIN LATERAL (
  SELECT id, actor, event, reason, data, created_at FROM job_events
  WHERE job_id IS NULL AND event = n.event AND scope = o.scope AND created_at >= o.planned_at
    AND created_at <= statement_timestamp() + interval '1 day'
  ORDER BY id DESC LIMIT 1
) e
"""

# Plans, newest first, from ``since`` on.
_PLANS = """
SELECT id, scope, created_at FROM job_events e
WHERE job_id IS NULL AND event = 'op_planned' AND created_at >= %(since)s::timestamptz
  AND created_at <= %(at)s::timestamptz AND (created_at < %(at)s::timestamptz OR e.id < %(id)s)
ORDER BY created_at DESC, e.id DESC LIMIT %(limit)s
"""
# How far back one look goes; the next one goes further.
_LOOKS = (timedelta(days=2), timedelta(days=14), timedelta(days=3650))

# The newest line of a batch up to a place: a probe for each name.
_NAMED = """
SELECT l.id, l.jobs FROM unnest(ARRAY['op_batch', 'op_done']) AS n(event)
CROSS JOIN LATERAL (
  SELECT e.id, e.data->'jobs' AS jobs FROM job_events e
  WHERE e.job_id IS NULL AND e.event = n.event AND e.scope = %(scope)s
    AND e.created_at >= %(since)s::timestamptz AND e.id <= %(upto)s
  ORDER BY e.id DESC LIMIT 1
) l
ORDER BY l.id DESC LIMIT 1
"""
# Lines that one look reads; those of batches in which all were skipped name nobody.
_MOST_LINES = 20


@dataclass(frozen=True)
class Cursor:
    """A place in the list of operations: that of the plan which is its last line."""

    at: datetime
    id: int

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read ``microseconds.id``; raises ValueError."""
        moment, line = two_numbers(text)
        try:
            return cls(_EPOCH + timedelta(microseconds=moment), line)
        except OverflowError:
            raise ValueError("expected a moment before the year 10000") from None

    def __str__(self) -> str:
        return f"{(self.at - _EPOCH) // timedelta(microseconds=1)}.{self.id}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = Cursor(datetime(9999, 1, 1, tzinfo=UTC), 0)


def list_operations(
    database: Database, now: datetime, *, before: Cursor | None = None, limit: int
) -> tuple[list[Operation], Cursor | None]:
    """Operations, the newest plan first, and where the next page begins, if there is one.

    ``now``: the database's clock.
    """
    place = before or _END
    plans: Sequence[Any] = ()
    for look in _LOOKS:
        since = min(now, place.at) - look
        plans = run(database, _PLANS, since=since, at=place.at, id=place.id, limit=limit + 1)
        if len(plans) > limit:
            break
    shown = plans[:limit]
    more = len(plans) > limit
    last = Cursor(shown[-1].created_at, shown[-1].id) if more else None
    return readable(database, shown), last


def readable(database: Database, plans: Sequence[Any]) -> list[Operation]:
    """The operations of the lines of some plans (``scope``, ``created_at``), in their order."""
    lines: dict[str, dict[Event, Any]] = {}
    scopes, planned = [row.scope for row in plans], [row.created_at for row in plans]
    for row in run(database, _LINES_OF_MANY, scopes=scopes, planned=planned) if plans else ():
        lines.setdefault(row.scope, {})[Event(row.event)] = row
    return [one for scope in dict.fromkeys(scopes) if (one := _readable(scope, lines[scope]))]


def _readable(scope: str, lines: Mapping[Event, Any]) -> Operation | None:
    """One operation; None where the ledger has been written past us: one hides no others."""
    try:
        return told(scope.removeprefix("op:"), lines)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Mark:
    """A place in the jobs that an operation has moved: a line of the ledger, and how many of it
    are passed.
    """

    line: int
    passed: int = 0

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Read ``line.passed``; raises ValueError."""
        return cls(*two_numbers(text))

    def __str__(self) -> str:
        return f"{self.line}.{self.passed}"


def moved_by(
    database: Database, made: Operation, *, after: Mark | None = None, limit: int
) -> tuple[list[int], Mark | None]:
    """The jobs that an operation has moved, those of its last batch first; where to go on, if there
    may be more. The first jobs of a canary are not among them.
    """
    place = after or Mark(LARGEST_ID)
    found: list[int] = []
    for _ in range(_MOST_LINES):
        if len(found) == limit:
            break
        where = {"scope": scope_of(made.id), "since": made.planned_at}
        rows = run(database, _NAMED, **where, upto=place.line)
        if not rows:
            return found, None
        [row] = rows
        passed = place.passed if row.id == place.line else 0
        left = sorted(row.jobs or [], reverse=True)[passed:]
        taken = left[: limit - len(found)]
        found += taken
        all_taken = len(taken) == len(left)
        place = Mark(row.id - 1) if all_taken else Mark(row.id, passed + len(taken))
    return found, place
