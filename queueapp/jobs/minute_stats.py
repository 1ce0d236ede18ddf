"""A minute of the ledger in one line: counts and histograms per kind, for charts and percentiles.

Each line goes on from the (xid, id) where its predecessor ended and reads only what no open
transaction can still add to, so that no event is counted twice or missed. Each carries on what all
lines before it have counted (``totals``), so that the newest one has the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from queueapp.jobs import minute_totals
from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.control import QUEUE, record
from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Event
from queueapp.jobs.system import claim_cost

EVERY_S = 60
EVENTS_A_LINE = 200_000
AHEAD_S = EVERY_S
MOST_DUE = 10_000
# Bucket n holds durations of at most 2^n ms; the last one everything above.
LAST_BUCKET = 31
_LOCK = 730_043

# A line of another server, brought here by pg_dump, may be ahead of this one: go on from now. Those
# of a drill tell of what never was: nothing that is goes on from them.
_LAST = """
SELECT least((data->>'xid')::xid8, pg_snapshot_xmin(pg_current_snapshot()))::text AS xid,
  (data->>'id')::bigint AS id, (data->>'full')::boolean AS full, data->'totals' AS totals,
  data->>'due_to' AS due_to,
  created_at > clock_timestamp() - make_interval(secs => %(every)s) AS fresh
FROM job_events e
WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue' AND NOT data ? 'drill'
ORDER BY e.id DESC LIMIT 1
"""

_NOW = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xid"

# A job for a later time than this comes when it is due, not when it is created.
_AHEAD = f"interval '{AHEAD_S} s'"

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


_READ = f"""
WITH news AS MATERIALIZED (
  SELECT xid, id, kind, event, attempt, data, created_at FROM job_events
  WHERE (xid, id) > (%(xid)s::xid8, %(id)s) AND xid < pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY xid, id LIMIT %(limit)s
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
  (SELECT xid::text FROM news ORDER BY xid DESC, id DESC LIMIT 1) AS xid,
  (SELECT id FROM news ORDER BY xid DESC, id DESC LIMIT 1) AS id,
  (SELECT count(*) FROM news) AS read,
  (SELECT min(created_at) FROM news) AS since,
  extract(epoch FROM statement_timestamp())::bigint AS now_s,
  (SELECT jsonb_object_agg(kind, jsonb_build_object('events', events,
     'retries', retries, 'later', later,
     'wait', coalesce(wait, '{{}}'), 'run', coalesce(run, '{{}}')))
   FROM counts LEFT JOIN waits USING (kind) LEFT JOIN runs USING (kind)) AS kinds
"""


def write(database: Database, *, actor: str) -> int:
    """Write one line unless another worker has just done so; how many events it covers.

    Behind a line that is full the next one may be written at once, whoever comes first.

    Run it in a transaction of its own: one writer at a time, by advisory lock.
    """
    if not run(database, f"SELECT pg_try_advisory_xact_lock({_LOCK}) AS mine")[0].mine:
        return 0
    last = run(database, _LAST, every=EVERY_S - 5)
    if last and last[0].fresh and not last[0].full:
        return 0
    start = last[0] if last else run(database, _NOW)[0]
    return _write(database, start, actor)


def _write(database: Database, start: Any, actor: str) -> int:
    """``start``: where to go on from, of the last line if there is one."""
    after_id = getattr(start, "id", 0)
    news: Any = run(database, _READ, xid=start.xid, id=after_id, limit=EVENTS_A_LINE)[0]
    next_due: Any = run(database, _NEXT_DUE, due_to=getattr(start, "due_to", None))[0]
    kinds = _with_due(news.kinds or {}, next_due.kinds or {})
    totals = getattr(start, "totals", None)
    data = {
        "xid": news.xid or start.xid,
        "id": news.id or after_id,
        "since": news.since.isoformat() if news.since else None,
        # There may be more than it could take.
        "full": news.read >= EVENTS_A_LINE,
        "kinds": kinds,
        "all": summed(kinds),
        "due_to": next_due.due_to.isoformat(),
        "totals": minute_totals.carried(totals, kinds, now_s=news.now_s),
        # What a claim reads by now, and over the lines how that has come about; None on SQLite, and
        # where nothing has moved: an idle worker asks little.
        "claim": claim_cost.measured(database) if kinds else None,
    }
    record(database, Event.MINUTE_STATS, scope=QUEUE, actor=actor, data=data)
    return int(news.read)


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
