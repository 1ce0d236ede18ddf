"""The audit trail: every act of people that the ledger has, page by page, newest first.

An act is all that one transaction did to jobs by one verb, or one line about the queue itself: a
pause, a hold on a kind, an operation. What an operation moves is told by its own lines.

Lines about the queue have an index of their own, so they are found however old they are. Moves of
jobs have none by who made them: they are sought along the ledger, window by window, for a moment
each time, and the page says how far back it has looked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.database import Database, run
from queueapp.jobs.queries.acts import (
    DIDS,
    EVENTS,
    OF_PLANS,
    TO_JOBS,
    TO_QUEUE,
    Act,
    ActFilter,
    Did,
)
from queueapp.jobs.queries.bounds import SCAN_LIMIT
from queueapp.jobs.queries.ledger import Cursor
from queueapp.jobs.status import Event

# How long one page goes on looking, the first window in any case.
LOOK_S = 0.06
# Acts of one transaction stay on one page, if there are no more than so many.
_TOGETHER = 20
_FIRST = datetime(1000, 1, 1, tzinfo=UTC)
_LAST = datetime(9000, 1, 1, tzinfo=UTC)
# Behind every line there is.
_TOP = Cursor(2**63 - 1, 2**63 - 1)
_DAY = timedelta(days=1)
# Transactions of people are over within this: what has begun before a line is not much younger.
_SLACK = timedelta(minutes=5)

# Of plans those of some sorts, where no others are asked for.
_PLANS = """(%(plans)s::text[] IS NULL OR event <> 'op_planned'
      OR {data}->>'verb' = ANY(%(plans)s::text[])
      OR ({data}->'canary' IS NOT NULL AND 'canary' = ANY(%(plans)s::text[])))"""

# A ledger is mostly workers, so whether a line may be of people is asked first, and once; data is
# carried on from those lines only. A token may be a worker's, that ends what it runs; a person's
# release names the lease that it has ended.
#
# The bounds of ``created_at`` in the window are whole days: they choose partitions, and refuse no
# line in them.
_ALONG = f"""
WITH lines AS MATERIALIZED (
  SELECT id, xid, job_id, kind, scope, event, from_status, actor, created_at, is_act,
    CASE WHEN is_act THEN left(reason, 1000) END AS reason, CASE WHEN is_act THEN data END AS told
  FROM (
    SELECT id, xid, job_id, kind, scope, event, from_status, actor, created_at, reason, data,
      CASE WHEN job_id IS NULL THEN event = ANY(%(control)s::text[])
        ELSE event = ANY(%(moves)s::text[])
          AND (actor LIKE 'user:%%' OR actor LIKE 'cli:%%' OR actor LIKE 'token:%%')
      END AS is_act
    FROM job_events e
    WHERE (e.xid, e.id) < (%(xid)s::text::xid8, %(id)s)
      AND created_at >= %(first_day)s::timestamptz AND created_at < %(last_day)s::timestamptz
    ORDER BY e.xid DESC, e.id DESC LIMIT %(scan)s
  ) around
),
wanted AS MATERIALIZED (
  SELECT * FROM lines
  WHERE is_act AND created_at >= %(since)s::timestamptz AND created_at < %(until)s::timestamptz
    AND (%(actor)s::text IS NULL OR actor = %(actor)s)
    AND {_PLANS.format(data="told")}
),
acts AS (
  SELECT max(id) AS id, min(id) AS first_id, xid, max(created_at) AS at, event, actor, reason,
    count(*) AS jobs, min(job_id) AS job_id, min(kind) AS kind, count(DISTINCT kind) AS kinds,
    NULL::text AS scope, min(told->>'via') AS via, min(told->>'request_id') AS request_id,
    NULL::jsonb AS told
  FROM wanted
  WHERE job_id IS NOT NULL AND told->>'operation' IS NULL
    AND (actor NOT LIKE 'token:%%' OR from_status IS DISTINCT FROM 'running'
      OR event = 'cancel_requested' OR told->>'released_token' IS NOT NULL)
  GROUP BY xid, event, actor, reason
  UNION ALL
  SELECT id, id, xid, created_at, event, actor, reason, 0, NULL, NULL, 0, scope, told->>'via',
    told->>'request_id', told
  FROM wanted WHERE job_id IS NULL
),
newest AS (SELECT * FROM acts ORDER BY xid DESC, id DESC LIMIT %(limit)s),
bottom AS (SELECT xid, id, created_at FROM lines e ORDER BY e.xid, e.id LIMIT 1)
SELECT a.id, a.first_id, a.xid::text AS xid, a.at, a.event, a.actor, a.reason, a.jobs, a.job_id,
  a.kind, a.kinds, a.scope, a.via, a.request_id, a.told,
  b.xid::text AS end_xid, b.id AS end_id, b.created_at AS end_at,
  (SELECT count(*) FROM lines) AS looked
FROM bottom b LEFT JOIN newest a ON true
ORDER BY a.xid DESC, a.id DESC
"""

# The index of these lines knows no order in time: all of them are read, up to a bound.
_BY_EVENT = f"""
WITH found AS MATERIALIZED (
  SELECT id, xid, created_at AS at, event, actor, left(reason, 1000) AS reason, scope, data AS told
  FROM job_events
  WHERE job_id IS NULL AND event = ANY(%(control)s::text[])
    AND created_at >= %(since)s::timestamptz AND created_at < %(until)s::timestamptz
    AND {_PLANS.format(data="data")}
  LIMIT %(scan)s
)
SELECT id, id AS first_id, xid::text AS xid, at, event, actor, reason, 0 AS jobs,
  NULL::bigint AS job_id, NULL::text AS kind, 0 AS kinds, scope,
  told->>'via' AS via, told->>'request_id' AS request_id, told,
  (SELECT count(*) FROM found) AS looked
FROM found f
WHERE (f.xid, f.id) < (%(xid)s::text::xid8, %(id)s)
  AND (%(actor)s::text IS NULL OR actor = %(actor)s)
ORDER BY f.xid DESC, f.id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True)
class ActPage:
    """One page. ``older``: where the next begins, None at the end of the ledger.

    ``back_to``: how far the look has come, where it ended before the page was full. ``crowded``:
    there are more lines than could be put in order; only some of them are here.
    """

    acts: Sequence[Act]
    older: Cursor | None
    back_to: datetime | None = None
    crowded: bool = False


def list_acts(
    database: Database,
    where: ActFilter,
    *,
    before: Cursor | None = None,
    limit: int = 50,
    seconds: float | None = None,
) -> ActPage:
    """The acts below ``before``, newest first, ``limit`` of them and a few more at most.

    A look at what was done to jobs ends after so many ``seconds``, else LOOK_S, be the page full or
    not.
    """
    given = _given(where, limit)
    if not given["moves"]:
        return _by_event(database, given, before or _TOP, limit)
    deadline = monotonic() + (LOOK_S if seconds is None else seconds)
    return _along(database, given, before or _TOP, limit, deadline)


def _given(where: ActFilter, limit: int) -> dict[str, Any]:
    since, until = where.since or _FIRST, where.until or _LAST
    day = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    end = until.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        "moves": [str(event) for did in where.dids if did in TO_JOBS for event in EVENTS[did]],
        "control": [str(event) for did in where.dids if did in TO_QUEUE for event in EVENTS[did]],
        "plans": None if Did.PLAN in where.dids else [str(d) for d in OF_PLANS if d in where.dids],
        "actor": where.actor,
        "since": since,
        "until": until,
        "first_day": day,
        "last_day": end if end == until else end + _DAY,
        "limit": limit + _TOGETHER,
        "scan": SCAN_LIMIT,
    }


def _along(
    database: Database, given: Mapping[str, Any], place: Cursor, limit: int, deadline: float
) -> ActPage:
    found: list[Row[Any]] = []
    while True:
        began = monotonic()
        rows = run(database, _ALONG, **given, xid=str(place.xid), id=place.id)
        found += [row for row in rows if row.id is not None]
        if len(found) > limit:
            return _full(found, limit)
        if not rows or rows[0].looked < given["scan"] or _is_past(rows[0], given):
            return ActPage([_act(row) for row in found], None)
        place = Cursor(int(rows[0].end_xid), rows[0].end_id)
        # The next window takes about as long as this one.
        if 2 * monotonic() - began > deadline:
            return ActPage([_act(row) for row in found], place, back_to=rows[0].end_at)


def _is_past(row: Row[Any], given: Mapping[str, Any]) -> bool:
    """Whether nothing below the window can be as young as was asked for."""
    return bool(row.end_at < given["since"] - _SLACK)


def _by_event(database: Database, given: Mapping[str, Any], place: Cursor, limit: int) -> ActPage:
    names = ("control", "plans", "actor", "since", "until", "limit", "scan")
    read = {name: given[name] for name in names}
    rows = run(database, _BY_EVENT, **read, xid=str(place.xid), id=place.id)
    crowded = bool(rows) and rows[0].looked >= given["scan"]
    if len(rows) > limit:
        page = _full(list(rows), limit)
        return ActPage(page.acts, page.older, crowded=crowded)
    return ActPage([_act(row) for row in rows], None, crowded=crowded)


def _full(rows: list[Row[Any]], limit: int) -> ActPage:
    """A page and the place below it, which is between two transactions if need be."""
    end = limit
    while end < len(rows) and rows[end].xid == rows[limit - 1].xid:
        end += 1
    shown = rows[:end]
    lowest = min(row.first_id for row in shown if row.xid == shown[-1].xid)
    return ActPage([_act(row) for row in shown], Cursor(int(shown[-1].xid), lowest))


def _act(row: Row[Any]) -> Act:
    return Act(
        id=row.id,
        at=row.at,
        did=DIDS[row.event],
        event=Event(row.event),
        actor=row.actor,
        reason=row.reason,
        jobs=row.jobs,
        job_id=row.job_id,
        kind=row.kind,
        kinds=row.kinds,
        scope=row.scope,
        via=row.via,
        request_id=row.request_id,
        told=row.told if isinstance(row.told, dict) else {},
    )
