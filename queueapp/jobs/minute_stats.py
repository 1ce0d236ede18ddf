"""A minute of the ledger in one line: counts and histograms per kind, for charts and percentiles.

Each line counts what has been committed since its predecessor, each event once, and waits for no
transaction of anybody's: it goes on from the (xid, id) where that one ended, and looks besides at
the transactions below that place which were open then (``open``). Each carries on what all lines
before it have counted (``totals``), so that the newest one has the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from queueapp.jobs import minute_totals
from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.control import QUEUE, record
from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Event
from queueapp.jobs.system import claim_cost

EVERY_S = 60.0
# A line is written so long before its time by whoever happens to look.
EARLY_S = 5.0
MORE_S = 1.0
EVENTS_A_LINE = 200_000
AHEAD_S = EVERY_S
MOST_DUE = 10_000
# Bucket n holds durations of at most 2^n ms; the last one everything above.
LAST_BUCKET = 31
_LOCK = 730_043

# Lines of a drill tell of what never was: nothing that is goes on from them.
#
# An older release wrote 999 for 1,000 where the number of the last transaction had become longer.
# The event itself, which is none from before the line's ``since``, tells its own.
_LAST = """
SELECT coalesce((
    SELECT l.xid FROM job_events l
    WHERE length(e.data->>'xid') < length(pg_snapshot_xmin(pg_current_snapshot())::text)
      AND l.xid >= (e.data->>'xid')::xid8 AND l.id = (e.data->>'id')::bigint
      AND l.created_at >= (e.data->>'since')::timestamptz LIMIT 1
  ), (data->>'xid')::xid8)::text AS xid,
  (data->>'id' IS NOT NULL
    AND (data->>'xid')::xid8 <= pg_snapshot_xmax(pg_current_snapshot())) IS TRUE AS is_here,
  (data->>'id')::bigint AS id, data->'open' AS open, (data->>'full')::boolean AS full,
  data->'totals' AS totals, data->>'due_to' AS due_to,
  created_at, extract(epoch FROM clock_timestamp() - created_at)::float8 AS age_s
FROM job_events e
WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue' AND NOT data ? 'drill'
ORDER BY e.id DESC LIMIT 1
"""

_OPEN = """(SELECT jsonb_object_agg(x, 0)
   FROM pg_snapshot_xip(pg_current_snapshot()) AS x)"""
_NOW = f"""
SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS xid, 0::bigint AS id, {_OPEN} AS open"""

# A job for a later time than this comes when it is due, not when it is created.
_AHEAD = f"interval '{AHEAD_S:.0f} s'"

# Such jobs, by kind, that will be due within a minute, from where the last line ended: all of them
# still wait, and are found by the order of the claim. What was tried or put off has come before.
_NEXT_DUE = f"""
WITH RECURSIVE {PRIORITIES},
due AS MATERIALIZED (
  SELECT n.kind FROM priorities p CROSS JOIN LATERAL (
    SELECT kind, attempts, handbacks, available_at, created_at FROM jobs
    WHERE status = 'queued' AND priority = p.priority
      AND available_at > greatest(statement_timestamp(), %(due_to)s::timestamptz)
      AND available_at <= statement_timestamp() + {_AHEAD}
    ORDER BY available_at, created_at, id LIMIT {MOST_DUE}) n
  WHERE n.attempts = 0 AND n.handbacks = 0 AND n.available_at > n.created_at + {_AHEAD}
  LIMIT {MOST_DUE}
)
SELECT statement_timestamp() + {_AHEAD} AS due_to,
  (SELECT jsonb_object_agg(kind, n) FROM (
     SELECT kind, count(*) AS n FROM due GROUP BY 1) k) AS kinds
"""


def _histogram(name: str, event: str) -> str:
    ms = f"(data->>'{name}_ms')::float8"
    bucket = f"least({LAST_BUCKET}, ceil(log(2, greatest({ms}, 1)::numeric)))::int"
    return f"""
{name}s AS (
  SELECT kind, jsonb_object_agg(bucket, n) AS {name} FROM (
    SELECT kind, {bucket} AS bucket, count(*) AS n FROM news
    WHERE {event} AND data ? '{name}_ms' GROUP BY 1, 2) h
  GROUP BY kind
)"""


_COLUMNS = "xid, id, kind, event, attempt, data, created_at"
# Numbers that this server has not come to are another's, from which pg_dump has brought the ledger.
_READ = f"""
WITH news AS MATERIALIZED (
  SELECT * FROM (
    (SELECT e.* FROM unnest(%(open)s::text[], %(after)s::bigint[]) AS o(xid, id)
     CROSS JOIN LATERAL (
       SELECT {_COLUMNS} FROM job_events WHERE xid = o.xid::xid8 AND id > o.id
       ORDER BY xid, id LIMIT %(limit)s) e
     ORDER BY e.xid, e.id LIMIT %(limit)s)
    UNION ALL
    (SELECT {_COLUMNS} FROM job_events WHERE (xid, id) > (%(xid)s::xid8, %(id)s)
       AND xid < pg_snapshot_xmax(pg_current_snapshot())
     ORDER BY xid, id LIMIT %(limit)s)
  ) n ORDER BY n.xid, n.id LIMIT %(limit)s
),
counts AS (
  SELECT kind, jsonb_object_agg(event, n) AS events, sum(again) AS retries, sum(later) AS later
  FROM (
    SELECT kind, event, count(*) AS n,
      count(*) FILTER (WHERE event = 'claimed' AND attempt > 1) AS again,
      count(*) FILTER (WHERE event = 'enqueued'
        AND (data->>'available_at')::timestamptz > created_at + {_AHEAD}) AS later
    FROM news WHERE kind IS NOT NULL GROUP BY 1, 2) c
  GROUP BY kind
),{_histogram("wait", "event = 'claimed'")},{_histogram("run", "event <> 'claimed'")}
SELECT
  (SELECT xid::text FROM news n ORDER BY n.xid DESC, n.id DESC LIMIT 1) AS xid,
  (SELECT id FROM news n ORDER BY n.xid DESC, n.id DESC LIMIT 1) AS id,
  (SELECT count(*) FROM news) AS read,
  {_OPEN} AS open,
  (SELECT min(created_at) FROM news) AS since,
  extract(epoch FROM statement_timestamp())::bigint AS now_s,
  (SELECT jsonb_object_agg(kind, jsonb_build_object('events', events,
     'retries', retries, 'later', later,
     'wait', coalesce(wait, '{{}}'), 'run', coalesce(run, '{{}}')))
   FROM counts LEFT JOIN waits USING (kind) LEFT JOIN runs USING (kind)) AS kinds
"""


@dataclass(frozen=True)
class _Place:
    """Up to where all that was committed is counted.

    Everything up to (``xid``, ``id``), but for the transactions in ``open``: of those nothing, or
    what has come up to an id.
    """

    xid: int
    id: int
    open: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Any) -> _Place:
        """As a line or a snapshot tells it; a line of an older release knows no open ones."""
        return cls(int(row.xid), int(row.id), {int(x): int(n) for x, n in (row.open or {}).items()})

    def after(self, news: Any) -> _Place:
        """Where the next line goes on, when this one has read ``news``."""
        last = (int(news.xid), int(news.id)) if news.read else (0, 0)
        xid, id_ = max(last, (self.xid, self.id))
        open_ = {int(x): 0 for x in news.open or () if int(x) <= xid}
        if news.read >= EVENTS_A_LINE:
            # It may have come to its bound among those that were open.
            open_ |= {x: after for x, after in self.open.items() if x > last[0]}
            open_ |= {x: last[1] for x in self.open if x == last[0]}
        return _Place(xid, id_, open_)


def write(database: Database, *, actor: str) -> float:
    """Write one line, unless another worker has just done so; in how many seconds to come again.

    Behind a line that is full the next one may be written at once, whoever comes first.

    Run it in a transaction of its own: one writer at a time, by advisory lock.
    """
    if not run(database, f"SELECT pg_try_advisory_xact_lock({_LOCK}) AS mine")[0].mine:
        return EVERY_S
    last = run(database, _LAST)
    rest = EVERY_S - last[0].age_s if last and not last[0].full else 0.0
    # A line of later than now was written by a clock that has been put right since.
    if EARLY_S < rest <= EVERY_S + EARLY_S:
        return float(min(rest, EVERY_S))
    return _write(database, last[0] if last else None, actor)


def _write(database: Database, last: Any, actor: str) -> float:
    """``last``: the line to go on from, if there is one."""
    # One of another server, brought here by pg_dump, may be ahead of this one: go on from now.
    is_here = last is not None and last.is_here
    start = _Place.of(last if is_here else run(database, _NOW)[0])
    news: Any = run(
        database, _READ, xid=str(start.xid), id=start.id, limit=EVENTS_A_LINE,
        open=list(map(str, start.open)), after=list(start.open.values()),
    )[0]  # fmt: skip
    next_due: Any = run(database, _NEXT_DUE, due_to=getattr(last, "due_to", None))[0]
    kinds = _with_due(news.kinds or {}, next_due.kinds or {})
    since = news.since
    if since and is_here and not last.full:
        # It tells of the time since that one, also where something was committed late.
        since = max(since, last.created_at)
    reached, is_full = start.after(news), news.read >= EVENTS_A_LINE
    data = {
        "xid": str(reached.xid),
        "id": reached.id,
        "open": reached.open,
        "since": since.isoformat() if since else None,
        # There may be more than it could take.
        "full": is_full,
        "kinds": kinds,
        "all": summed(kinds),
        "due_to": next_due.due_to.isoformat(),
        "totals": minute_totals.carried(getattr(last, "totals", None), kinds, now_s=news.now_s),
        # What a claim reads by now, and over the lines how that has come about; None on SQLite, and
        # where nothing has moved: an idle worker asks little.
        "claim": claim_cost.measured(database) if kinds else None,
    }
    record(database, Event.MINUTE_STATS, scope=QUEUE, actor=actor, data=data)
    return MORE_S if is_full else EVERY_S


def from_now_on(database: Database) -> dict[str, Any] | None:
    """What a line says that counts nothing, so that the next one counts only what is yet to come.

    None where there is no line yet: the first one goes on from its own moment.
    """
    last = run(database, _LAST)
    if not last:
        return None
    here = _Place.of(run(database, _NOW)[0])
    told = {"xid": str(here.xid), "id": here.id, "open": here.open, "since": None, "full": False}
    totals = {"due_to": last[0].due_to, "totals": last[0].totals, "claim": None}
    return {**told, "kinds": {}, "all": summed({}), **totals}


def age_s(database: Database) -> float | None:
    """How long ago the newest line was written, None without one; those of drills are none."""
    last = run(database, _LAST)
    return float(last[0].age_s) if last else None


def _with_due(kinds: Mapping[str, Any], due: Mapping[str, int]) -> dict[str, Any]:
    """``kinds`` with the jobs for a later time whose time comes now."""
    nothing = {"events": {}, "retries": 0, "later": 0, "wait": {}, "run": {}}
    return {**kinds, **{k: {**kinds.get(k, nothing), "due": int(n)} for k, n in due.items()}}


def summed(kinds: Mapping[str, Any]) -> dict[str, Any]:
    """All kinds as one: whoever reads the lines of an hour need not open every kind of each.

    Of the claims that were given back it is not known whether they were retries: so these are as
    few as may be.
    """
    events: Counter[str] = Counter()
    wait: Counter[str] = Counter()
    retries = 0
    for kind in kinds.values():
        events.update(kind["events"])
        wait.update(kind["wait"])
        given_back = sum(kind["events"].get(name, 0) for name in (Event.RELEASED, Event.DEFERRED))
        retries += max(0, int(kind["retries"]) - given_back)
    later, due = (sum(int(one.get(n) or 0) for one in kinds.values()) for n in ("later", "due"))
    return {"events": events, "wait": wait, "retries": retries, "later": later, "due": due}
