"""The statements that write a long history at once, and remove it."""

from __future__ import annotations

from queueapp.jobs.minute_stats import LAST_BUCKET

# Producers of made jobs are called so, and made lines about the queue are marked so.
PREFIX = "made."
MARK = "made"
# What each statement has to sort or to hash.
ROOM = "SELECT set_config('work_mem', '128MB', true), set_config('jit', 'off', true)"

# What is drawn is the same each time.
SEED = "SELECT setseed(%(seed)s)"

# Two clocks: ``age`` is when a job came, the spans are what happened to it then. Daytime has three
# times as much as the night.
_DRAWN = """
drawn AS MATERIALIZED (
  SELECT nextval(pg_get_serial_sequence('jobs', 'id')) AS id, n, random() AS r, random() AS a,
    random() AS b, random() AS c, random() AS d, n::float8 / greatest(%(ended)s, 1) AS x,
    -- Mixed: neighbours in the list differ.
    (n - %(ended)s) * 7919 %% greatest(%(waiting)s, 1) AS place
  FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
),
parts AS (
  SELECT *, CASE
      WHEN n > %(ended)s THEN CASE
        WHEN place < %(running)s THEN 'running'
        WHEN place < %(kept)s THEN 'kept'
        WHEN place < %(held)s THEN 'held'
        WHEN place < %(retrying)s THEN 'retrying'
        WHEN place < %(scheduled)s THEN 'scheduled' ELSE 'due' END
      WHEN x > 0.995 THEN 'good'
      WHEN r < 0.0034 THEN 'bad' WHEN r < 0.0044 THEN 'dropped' WHEN r < 0.005 THEN 'again'
      WHEN r < 0.015 THEN 'second' ELSE 'good' END AS part,
    0.02 + 0.5 * a + 40 * power(a, 40) AS wait_s, 0.02 + 20 * power(b, 6) AS run_s,
    1 + floor(%(errors)s * c * c)::int AS e,
    CASE WHEN n > %(ended)s THEN 300 + 900 * d
      ELSE 120 + %(span_s)s * (1 - x - sin(2 * pi() * %(days)s * x) * 0.5 / (2 * pi() * %(days)s))
      END AS age
  FROM drawn
),
sorts AS (
  SELECT *, CASE part WHEN 'bad' THEN CASE WHEN d < 0.5 THEN 5 ELSE 1 END
      WHEN 'second' THEN 2 WHEN 'retrying' THEN 1 + (n %% 3)::int
      WHEN 'running' THEN 1 WHEN 'good' THEN 1 WHEN 'again' THEN 1 ELSE 0 END AS tries,
    part IN ('bad', 'retrying', 'again', 'second') AS fails,
    wait_s + run_s + 10 AS gap, %(now)s::timestamptz - make_interval(secs => age) AS came
  FROM parts
),
told AS MATERIALIZED (
  SELECT *, CASE WHEN part = 'held' THEN %(held_kind)s::text
      WHEN fails THEN (%(kinds)s::text[])[1 + e %% %(number)s]
      ELSE (%(kinds)s::text[])[1 + floor(%(number)s * c * c)::int] END AS kind,
    (ARRAY[0, 0, 0, 0, 5, 5, 10, 20, -5])[1 + floor(9 * d)::int] AS priority,
    (%(producers)s::text[])[1 + (n %% 3)::int] AS producer,
    (%(workers)s::text[])[1 + (n %% cardinality(%(workers)s::text[]))::int] AS worker,
    came + CASE part WHEN 'scheduled' THEN make_interval(secs => age + 86400 * a)
      ELSE interval '0' END AS due,
    CASE WHEN fails THEN (%(classes)s::text[])[e] END AS class,
    CASE WHEN fails THEN replace((%(messages)s::text[])[e], '#', n::text) END AS message,
    CASE WHEN fails THEN (%(fingerprints)s::text[])[e] END AS fingerprint,
    CASE WHEN fails THEN replace((%(traces)s::text[])[e], '#', n::text) END AS trace,
    came + make_interval(secs => wait_s + run_s + 60) AS asked
  FROM sorts
)"""

_JOBS = """
jobs_put AS (
  INSERT INTO jobs (id, kind, payload, status, priority, available_at, attempts, max_attempts,
    held_for, locked_by, lease_token, lease_expires_at, claimed_at, progress, progress_note, result,
    error_class, error_message, error_fingerprint, producer, idempotency_key, request_hash,
    created_at, started_at, finished_at)
  OVERRIDING SYSTEM VALUE
  SELECT id, kind,
    CASE WHEN kind = ANY(%(plain_kinds)s::text[]) THEN jsonb_build_object('message',
        CASE WHEN n %% 4999 = 0 THEN %(hostile)s::jsonb ELSE '"hello"'::jsonb END)
      WHEN n %% 4999 = 0 THEN %(hostile)s::jsonb
      ELSE jsonb_build_object('message', 'hello', 'order', n, 'account', n %% 5000,
        'to', 'customer-' || n %% 100000 || '@example.com') END,
    CASE part WHEN 'running' THEN 'running' WHEN 'kept' THEN 'held' WHEN 'held' THEN 'held'
      WHEN 'bad' THEN 'failed' WHEN 'dropped' THEN 'cancelled' WHEN 'good' THEN 'succeeded'
      WHEN 'again' THEN 'succeeded' WHEN 'second' THEN 'succeeded' ELSE 'queued' END,
    priority,
    CASE part WHEN 'again' THEN asked
      WHEN 'retrying' THEN %(now)s::timestamptz + make_interval(secs => 30 + 3600 * a)
      ELSE due + make_interval(secs => greatest(tries - 1, 0) * gap) END,
    tries, 5, CASE part WHEN 'kept' THEN 'job' WHEN 'held' THEN 'kind' END,
    CASE part WHEN 'running' THEN 'worker:' || worker END,
    CASE part WHEN 'running' THEN md5(id || ' 1')::uuid END,
    CASE part WHEN 'running' THEN %(now)s::timestamptz + interval '1 hour' END,
    CASE part WHEN 'running' THEN due + make_interval(secs => wait_s) END,
    CASE part WHEN 'running' THEN (100 * d)::int END,
    CASE part WHEN 'running' THEN 'order ' || n END,
    CASE WHEN part IN ('good', 'second', 'again') THEN '{"ok": true}'::jsonb END,
    CASE WHEN part IN ('bad', 'retrying') THEN class END,
    CASE WHEN part IN ('bad', 'retrying') THEN message END,
    CASE WHEN part IN ('bad', 'retrying') THEN fingerprint END,
    producer,
    CASE WHEN n %% 20 = 0 THEN 'order-' || id END,
    CASE WHEN n %% 20 = 0 THEN 'payload=' || left(md5(n::text), 8) END,
    came,
    CASE WHEN part IN ('good', 'second', 'bad')
        THEN due + make_interval(secs => (tries - 1) * gap + wait_s)
      WHEN part = 'again' THEN asked + make_interval(secs => wait_s) END,
    CASE WHEN part IN ('good', 'second', 'bad')
        THEN due + make_interval(secs => (tries - 1) * gap + wait_s + run_s)
      WHEN part = 'again' THEN asked + make_interval(secs => wait_s + run_s)
      WHEN part = 'dropped' THEN came + interval '30 s' END
  FROM told ORDER BY n
)"""

# Every try begins, and all but those of running jobs end; then what people did.
_LINES = """
tries AS (
  SELECT t.*, k, k < tries OR part = 'retrying' AS goes_on, md5(id || ' ' || k)::uuid AS token,
    due + make_interval(secs => (k - 1) * gap + wait_s) AS began,
    CASE WHEN part = 'retrying' AND k = tries
      THEN %(now)s::timestamptz + make_interval(secs => 30 + 3600 * a)
      ELSE due + make_interval(secs => (k - CASE WHEN k < tries THEN 0 ELSE 1 END) * gap) END
      AS due_then
  FROM told t CROSS JOIN LATERAL generate_series(1, tries) k
),
lines AS (
  SELECT id, kind, 'enqueued' AS event, NULL AS was, 'queued' AS became, 0 AS try,
    NULL::uuid AS token, producer AS actor, NULL AS reason, jsonb_build_object('priority', priority,
      'available_at', due, 'via', 'python') AS data, came AS at, 0 AS place, n
  FROM told
  UNION ALL
  SELECT id, kind, 'claimed', 'queued', 'running', k, token, 'worker:' || worker, NULL,
    jsonb_build_object('wait_ms', round((wait_s * 1000)::numeric)), began, 2 * k, n
  FROM tries
  UNION ALL
  SELECT id, kind, CASE WHEN goes_on THEN 'retry_scheduled'
      WHEN part IN ('bad', 'again') THEN 'failed' ELSE 'succeeded' END, 'running',
    CASE WHEN goes_on THEN 'queued'
      WHEN part IN ('bad', 'again') THEN 'failed' ELSE 'succeeded' END,
    k, token, 'worker:' || worker,
    CASE WHEN part = 'bad' AND k = 5 THEN 'attempts_used_up'
      WHEN part IN ('bad', 'again') AND tries = 1 THEN 'permanent' END,
    jsonb_build_object('run_ms', round((run_s * 1000)::numeric, 3), 'slot', n %% 8)
      || CASE WHEN goes_on OR part IN ('bad', 'again') THEN jsonb_build_object(
        'error_class', class, 'error_message', message, 'traceback', trace, 'attempts', k,
        'handbacks', 0, 'available_at', due_then, 'error_fingerprint', fingerprint)
        ELSE '{}'::jsonb END,
    began + make_interval(secs => run_s), 2 * k + 1, n
  FROM tries WHERE part <> 'running'
  UNION ALL
  SELECT id, kind, 'requeued', 'failed', 'queued', 1, NULL,
    (%(people)s::text[])[1 + (n %% cardinality(%(people)s::text[]))::int], 'the provider is back',
    jsonb_build_object('via', 'console', 'attempts', 0, 'handbacks', 0, 'available_at', asked,
      'cancel_requested_at', NULL, 'was', jsonb_build_object('attempts', 1, 'handbacks', 0,
        'available_at', due, 'cancel_requested_at', NULL)), asked, 20, n
  FROM told WHERE part = 'again'
  UNION ALL
  SELECT id, kind, 'claimed', 'queued', 'running', 1, md5(id || ' again')::uuid,
    'worker:' || worker, NULL,
    jsonb_build_object('wait_ms', round((wait_s * 1000)::numeric)),
    asked + make_interval(secs => wait_s), 21, n
  FROM told WHERE part = 'again'
  UNION ALL
  SELECT id, kind, 'succeeded', 'running', 'succeeded', 1, md5(id || ' again')::uuid,
    'worker:' || worker, NULL,
    jsonb_build_object('run_ms', round((run_s * 1000)::numeric, 3), 'slot', n %% 8),
    asked + make_interval(secs => wait_s + run_s), 22, n
  FROM told WHERE part = 'again'
  UNION ALL
  SELECT id, kind, 'cancelled', 'queued', 'cancelled', 0, NULL,
    (%(people)s::text[])[1 + (n %% cardinality(%(people)s::text[]))::int],
    'ordered twice', jsonb_build_object('via', 'console'), came + interval '30 s', 1, n
  FROM told WHERE part = 'dropped'
  UNION ALL
  SELECT id, kind, 'held', 'queued', 'held', 0, NULL,
    CASE part WHEN 'kept' THEN (%(people)s::text[])[1] ELSE 'housekeeping:made' END,
    CASE part WHEN 'kept' THEN 'looks wrong' ELSE 'kind_held' END,
    jsonb_build_object('via', CASE part WHEN 'kept' THEN 'console' ELSE 'worker' END,
      'held_for', CASE part WHEN 'kept' THEN 'job' ELSE 'kind' END), came + interval '5 s', 1, n
  FROM told WHERE part IN ('kept', 'held')
),
lines_put AS (
  INSERT INTO job_events (job_id, kind, event, from_status, to_status, attempt, lease_token, actor,
    reason, data, created_at)
  SELECT id, kind, event, was, became, try, token, actor, reason, data, at
  FROM lines WHERE n > %(silent)s ORDER BY at, place
  RETURNING 1
)"""

FILL = f"""
WITH {_DRAWN},{_JOBS},{_LINES}
SELECT (SELECT count(*) FROM lines_put) AS lines
"""

SAY = """
INSERT INTO job_events (scope, event, actor, reason, data, created_at)
SELECT scope, event, actor, reason, data, at
FROM jsonb_to_recordset(%(lines)s::jsonb)
  AS l(scope text, event text, actor text, reason text, data jsonb, at timestamptz)
"""


def _histogram(name: str) -> str:
    bucket = f"least({LAST_BUCKET}, ceil(log(2, greatest({name}_ms, 1)::numeric)))::int"
    return f"""
{name}s AS (
  SELECT minute, kind, jsonb_object_agg(bucket, n) AS {name} FROM (
    SELECT minute, kind, {bucket} AS bucket, count(*) AS n FROM news
    WHERE {name}_ms IS NOT NULL GROUP BY 1, 2, 3) h
  GROUP BY 1, 2
)"""


MINUTES = f"""
WITH news AS MATERIALIZED (
  SELECT date_trunc('minute', created_at) AS minute, kind, event, attempt,
    (data->>'wait_ms')::float8 AS wait_ms, (data->>'run_ms')::float8 AS run_ms
  FROM job_events
  WHERE job_id IS NOT NULL AND created_at >= %(since)s::timestamptz
    AND created_at < %(until)s::timestamptz
),
counts AS (
  SELECT minute, kind, jsonb_object_agg(event, n) AS events, sum(again) AS retries FROM (
    SELECT minute, kind, event, count(*) AS n,
      count(*) FILTER (WHERE event = 'claimed' AND attempt > 1) AS again
    FROM news GROUP BY 1, 2, 3) c
  GROUP BY 1, 2
),{_histogram("wait")},{_histogram("run")}
SELECT minute, jsonb_object_agg(kind, jsonb_build_object('events', events,
  'retries', retries, 'wait', coalesce(wait, '{{}}'), 'run', coalesce(run, '{{}}'))) AS kinds
FROM counts LEFT JOIN waits USING (minute, kind) LEFT JOIN runs USING (minute, kind)
GROUP BY 1 ORDER BY 1
"""

BOUNDS = "SELECT min(id) AS first, max(id) AS last FROM jobs"
CLEAR = f"""
WITH gone AS (
  DELETE FROM jobs WHERE id >= %(first)s AND id < %(end)s AND producer LIKE '{PREFIX}%%'
  RETURNING id
),
lines AS (
  DELETE FROM job_events WHERE job_id >= %(first)s AND job_id < %(end)s
    AND job_id IN (SELECT id FROM gone)
)
SELECT count(*) AS jobs FROM gone
"""
# Operations of made people go as well.
CLEAR_LINES = f"""
DELETE FROM job_events
WHERE job_id IS NULL AND (data ? '{MARK}' OR scope LIKE 'op:%%' AND actor = ANY(%(people)s))
"""
