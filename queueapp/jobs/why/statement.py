"""The statement that reads what the rules look at, each part only if the status asks for it.

Every part has a bound, so the cost follows neither the depth of the queue nor what has ended. A
scalar subquery in a CASE that is not reached is not run.
"""

from __future__ import annotations

from queueapp.jobs import presence
from queueapp.jobs.database import object_or_null
from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.queries.drain import CLAIMS

AHEAD_LIMIT = COUNT_LIMIT
# Names of workers that are looked through, today's and yesterday's.
MOST_WORKERS = 2_000
# Lines about no job, the newest, among which the living are sought where there are more names.
MOST_SIGNS = 10_000
MOST_RUNNING = 10_000
EVENTS = 20
# Lines of the ledger, the newest, among which the last claim is sought.
TAIL = 500
# Lines of the minute's statistics for the usual run of a kind.
RUN_LINES = 120
_LONGEST_TEXT = 500

# Whole days, so that partitions are left out and no row of a day is filtered away: a scan for the
# next name would walk through those. Told as parameters, the planner never opens the others.
_LATELY = "created_at >= %(lately)s::timestamptz"
_NOW = "e.created_at < %(tomorrow)s::timestamptz"
_SEEN = f"e.job_id IS NULL AND e.event = 'worker_seen' AND e.{_LATELY} AND {_NOW}"

# First, what concerns every day of the ledger: the latest switches. Its plan serves all jobs and is
# kept. The large statement is planned anew each time, for the days that it is asked for: a plan for
# any days would have all of them in each of its parts.
SWITCHES = """
SELECT statement_timestamp() AS now, me.created_at,
  set_config('plan_cache_mode', 'force_custom_plan', true) AS planned,
  CASE WHEN me.status IN ('queued', 'held') THEN (SELECT jsonb_agg(s) FROM (
     SELECT DISTINCT ON (e.scope) e.id, e.scope, e.event, e.actor, e.reason, e.created_at, e.data
     FROM job_events e
     WHERE e.job_id IS NULL AND e.event = ANY(%(switches)s)
       AND e.scope IN ('queue', 'kind:' || me.kind)
     ORDER BY e.scope, e.id DESC) s) END AS switches
FROM jobs me WHERE me.id = %(job_id)s"""

# When anything was claimed last: by what runs, and by the newest lines. Where none of those is a
# claim, there was none since the oldest of them.
LAST_CLAIM = f"""
SELECT greatest(
  (SELECT claimed_at FROM jobs WHERE status = 'running' ORDER BY claimed_at DESC, id DESC LIMIT 1),
  (SELECT coalesce(max(t.created_at) FILTER (WHERE t.event = 'claimed'),
     CASE WHEN count(*) >= %(tail)s THEN min(t.created_at) END)
   FROM (SELECT e.event, e.created_at FROM job_events e WHERE e.{_LATELY} AND {_NOW}
     ORDER BY e.xid DESC, e.id DESC LIMIT %(tail)s) t))"""

JOB = f"""
SELECT id, kind, status, priority, available_at, created_at, attempts, max_attempts, handbacks,
  held_for, locked_by, lease_expires_at, claimed_at, started_at, finished_at, cancel_requested_at,
  progress, left(progress_note, {_LONGEST_TEXT}) AS progress_note, error_class,
  left(error_message, {_LONGEST_TEXT}) AS error_message, producer, timeout_s
FROM jobs WHERE id = %(job_id)s"""

# The last sign of each worker, and its end if it has said so since. ``names``: a loose scan.
SIGNS = f"""
names AS (
  (SELECT e.scope FROM job_events e WHERE {_SEEN} ORDER BY e.scope LIMIT 1)
  UNION ALL
  SELECT (SELECT e.scope FROM job_events e WHERE {_SEEN} AND e.scope > n.scope
          ORDER BY e.scope LIMIT 1)
  FROM names n WHERE n.scope IS NOT NULL
),
workers AS MATERIALIZED (
  SELECT n.scope AS name, seen.created_at AS seen_at, seen.data, stopped.created_at AS stopped_at,
    stopped.reason AS stopped_for
  FROM (SELECT scope FROM names WHERE scope IS NOT NULL LIMIT %(most_workers)s) n
  CROSS JOIN LATERAL (
    SELECT e.id, e.created_at, e.data FROM job_events e
    WHERE {_SEEN} AND e.scope = n.scope ORDER BY e.id DESC LIMIT 1
  ) seen
  LEFT JOIN LATERAL (
    SELECT e.created_at, e.reason FROM job_events e
    WHERE e.job_id IS NULL AND e.event = 'worker_stopped' AND e.{_LATELY} AND {_NOW}
      AND e.scope = n.scope AND e.id > seen.id ORDER BY e.id DESC LIMIT 1
  ) stopped ON true
)"""

# All of them, with the first sign that is known.
WORKERS = f"""
WITH RECURSIVE {SIGNS}
SELECT w.*, first.created_at AS first_seen_at
FROM workers w CROSS JOIN LATERAL (
  SELECT e.created_at FROM job_events e
  WHERE {_SEEN} AND e.scope = w.name ORDER BY e.id LIMIT 1) first
ORDER BY w.name"""

# The last sign of each worker that lives, whatever the number of names since yesterday. All lines
# about no job lie side by side in the index of jobs, the newest last. ``whole``: they reach back
# over the time in which a worker signs.
RECENT = f"""
WITH tail AS MATERIALIZED (
  SELECT e.id, e.scope, e.event, e.reason, e.data, e.created_at FROM job_events e
  WHERE e.job_id IS NULL AND e.{_LATELY} AND {_NOW}
  ORDER BY e.job_id DESC, e.id DESC LIMIT %(most_signs)s
),
newest AS (
  SELECT DISTINCT ON (scope) id, scope, data, created_at FROM tail
  WHERE event = 'worker_seen'
    AND created_at >= statement_timestamp() - make_interval(secs => %(live_s)s)
  ORDER BY scope, id DESC
)
SELECT (SELECT count(*) < %(most_signs)s
      OR min(created_at) < statement_timestamp() - make_interval(secs => %(live_s)s)
    FROM tail) AS whole,
  (SELECT jsonb_agg(s) FROM (
     SELECT n.scope AS name, n.created_at AS seen_at, n.data, gone.created_at AS stopped_at,
       gone.reason AS stopped_for, first.created_at AS first_seen_at
     FROM newest n
     LEFT JOIN LATERAL (
       SELECT created_at, reason FROM tail t
       WHERE t.event = 'worker_stopped' AND t.scope = n.scope AND t.id > n.id LIMIT 1
     ) gone ON true
     CROSS JOIN LATERAL (
       SELECT e.created_at FROM job_events e
       WHERE {_SEEN} AND e.scope = n.scope
       ORDER BY e.id LIMIT 1) first) s) AS signs
"""

FACTS = f"""
WITH RECURSIVE me AS MATERIALIZED ({JOB}
),
{SIGNS},
running AS MATERIALIZED (
  SELECT id, kind, locked_by, started_at, lease_expires_at FROM jobs
  WHERE status = 'running' ORDER BY claimed_at, id LIMIT %(most_running)s
),
higher AS (
  (SELECT j.priority FROM jobs j WHERE j.status = 'queued' ORDER BY j.priority DESC LIMIT 1)
  UNION ALL
  SELECT (SELECT j.priority FROM jobs j
          WHERE j.status = 'queued' AND j.priority < p.priority ORDER BY j.priority DESC LIMIT 1)
  FROM higher p WHERE p.priority > (SELECT priority FROM me)
),
ahead AS (
  (SELECT 1 FROM higher p CROSS JOIN LATERAL (
     SELECT 1 FROM jobs j WHERE j.status = 'queued' AND j.priority = p.priority
       AND j.available_at <= statement_timestamp()
     ORDER BY j.available_at, j.created_at, j.id LIMIT %(most_ahead)s) due
   WHERE p.priority > (SELECT priority FROM me))
  UNION ALL
  (SELECT 1 FROM me CROSS JOIN LATERAL (
     SELECT 1 FROM jobs j WHERE j.status = 'queued' AND j.priority = me.priority
       AND (j.available_at, j.created_at, j.id) < (me.available_at, me.created_at, me.id)
     ORDER BY j.available_at, j.created_at, j.id LIMIT %(most_ahead)s) due)
),
lines AS (
  SELECT created_at, data FROM job_events
  WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue' AND {_LATELY}
    AND created_at < %(tomorrow)s::timestamptz
  ORDER BY id DESC LIMIT CASE (SELECT status FROM me)
    WHEN 'running' THEN %(run_lines)s::bigint ELSE %(rate_lines)s::bigint END
)
SELECT me.*, statement_timestamp() AS now,
  (SELECT jsonb_agg(e ORDER BY e.id DESC) FROM (
     SELECT e.id, e.event, e.to_status, e.actor, left(e.reason, {_LONGEST_TEXT}) AS reason,
       e.created_at, e.data->>'available_at' AS available_at
     FROM job_events e
     WHERE e.job_id = me.id AND e.created_at >= %(born)s::timestamptz AND {_NOW}
     ORDER BY e.id DESC LIMIT %(events)s) e) AS events,
  CASE WHEN me.status IN ('queued', 'held', 'running') THEN (SELECT jsonb_agg(w) FROM workers w)
    END AS workers,
  CASE WHEN me.status IN ('queued', 'held', 'running') THEN
    (SELECT jsonb_agg(c) FROM ({presence.CONNECTIONS}) c) END AS connections,
  CASE WHEN me.status = 'queued' THEN (SELECT jsonb_agg(h) FROM (
     SELECT r.locked_by AS name, count(r.started_at) AS started,
       bool_or(r.kind = me.kind AND r.lease_expires_at > statement_timestamp()) AS has_kind,
       (array_agg(jsonb_build_object('id', r.id, 'kind', r.kind, 'started_at', r.started_at)
          ORDER BY r.started_at, r.id))[1] AS longest
     FROM running r GROUP BY 1) h) END AS holders,
  CASE WHEN me.status = 'queued' AND me.available_at <= statement_timestamp() THEN
    (SELECT count(*) FROM (SELECT 1 FROM ahead LIMIT %(most_ahead)s) bounded) END AS ahead,
  CASE WHEN me.status = 'queued' THEN ({LAST_CLAIM}) END AS last_claim,
  CASE WHEN me.status = 'queued' THEN (SELECT jsonb_agg(jsonb_build_object(
       'at', l.created_at, 'since', l.data->>'since', 'claims', {CLAIMS.format(alias="l")}))
     FROM lines l) END AS rates,
  CASE WHEN me.status = 'running' THEN (SELECT jsonb_object_agg(b.bucket, b.n) FROM (
     SELECT r.key AS bucket, sum(r.value::bigint) AS n
     FROM lines l CROSS JOIN LATERAL jsonb_each_text(
       {object_or_null("l.data->'kinds'->me.kind->'run'")}) r
     GROUP BY 1) b) END AS runs
FROM me
"""
