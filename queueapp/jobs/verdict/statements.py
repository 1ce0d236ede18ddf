"""The readings of the verdict: one statement each, index probes and bounded scans only.

All but the first are planned anew each time, for the two days of the ledger that they ask for.
"""

from __future__ import annotations

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.control import LATEST
from queueapp.jobs.database import object_or_null
from queueapp.jobs.queries import failed_so, failures, line
from queueapp.jobs.queries.line import LATER, next_of_priority
from queueapp.jobs.queries.priorities import LOOKED
from queueapp.jobs.why.statement import MOST_RUNNING

# Jobs of each priority among which one that can run, or was tried, is sought.
HEAD, MOST_SOONEST = line.HEAD, line.MOST_SOONEST
RETRIES_S = 4_500  # Beyond that no retry waits, as a rule: the longest pause and its chance.
# Jobs on hold that are counted: of a kind, and of all of them.
MOST_HELD, MOST_HELD_IN_ALL = 1_000, 20_000
MOST_HOLDERS = 1_000
# Lines of the ledger, newest first, among which the last end of an attempt and lost leases are.
TAIL = 1_000
# Minute's lines: of the last hour, and of two for how long a kind runs.
MOST_LINES, RUN_LINES = 600, 120
# Kinds among which the one with the most failures, retries or arrivals is found, and of how long.
MOST_RECENT, RECENT_S = 50, 600
# Failures, and jobs to be tried again, that are grouped.
MOST_FAILURES, GROUPS, MOST_HIT = 1_000, 5, 100

LATELY = "created_at >= %(lately)s::timestamptz AND created_at < %(tomorrow)s::timestamptz"
_RECENT = f"created_at > statement_timestamp() - interval '{RECENT_S} s'"

SWITCHES = f"""
SELECT statement_timestamp() AS now,
  set_config('plan_cache_mode', 'force_custom_plan', true) AS planned,
  current_setting('transaction_read_only')::boolean AS read_only,
  pg_is_in_recovery() AS in_recovery,
  (SELECT jsonb_agg(s) FROM ({LATEST}) s) AS switches
"""

_ENDED = """(SELECT finished_at FROM jobs
   WHERE status = '{status}' AND finished_at IS NOT NULL AND finished_at < 'infinity'
   ORDER BY finished_at DESC LIMIT 1)"""

# Of cancelled jobs only those that ran: to cancel what waits moves nothing on.
_STOPPED = f"""(SELECT max(finished_at) FROM (
     SELECT finished_at, started_at FROM jobs
     WHERE status = 'cancelled' AND finished_at IS NOT NULL AND finished_at < 'infinity'
     ORDER BY finished_at DESC LIMIT {HEAD}) c WHERE started_at IS NOT NULL)"""

# ``heads``: the priorities with due jobs, and of each the first one and the first that a live
# worker can run (``kinds`` NULL: who lives is not known). ``cut``: the time-out ends the lease, so
# that its end does not tell when it was renewed. ``unmoved``: due jobs of kinds on hold that nobody
# has moved to held yet, among the first ones.
LINE = f"""
WITH RECURSIVE {LOOKED},
running AS MATERIALIZED (
  SELECT id, kind, priority, locked_by, started_at, claimed_at, lease_expires_at,
    cancel_requested_at, coalesce(started_at + make_interval(
      secs => nullif(coalesce(timeout_s, %(job_timeout)s::float8), 0))
      <= lease_expires_at + interval '1 s', false) AS cut
  FROM jobs WHERE status = 'running' ORDER BY claimed_at, id LIMIT {MOST_RUNNING}
),
heads AS (
  SELECT p.priority, (SELECT most FROM share) AS most, due.jobs, oldest.id, oldest.kind,
    greatest(oldest.available_at, oldest.created_at) AS at,
    able.id AS able_id, able.kind AS able_kind,
    greatest(able.available_at, able.created_at) AS able_at
  FROM looked p
  CROSS JOIN LATERAL ({next_of_priority("id, kind, available_at, created_at", 1)}) oldest
  CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM ({next_of_priority("1", "(SELECT most + 1 FROM share)")}) d) due
  LEFT JOIN LATERAL (
    SELECT id, kind, available_at, created_at FROM (
      {next_of_priority("id, kind, available_at, created_at", HEAD)}) first
    WHERE %(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s::text[])
    ORDER BY available_at, created_at, id LIMIT 1
  ) able ON true
),
tail AS MATERIALIZED (
  SELECT event, created_at,
    CASE WHEN event = 'lease_expired' AND NOT data ? 'died' THEN data END AS lost
  FROM job_events WHERE {LATELY} ORDER BY xid DESC, id DESC LIMIT {TAIL}
)
SELECT statement_timestamp() AS now,
  (SELECT count(*) FROM looked) AS priorities,
  (SELECT jsonb_agg(h ORDER BY h.priority DESC) FROM heads h) AS heads,
  (SELECT count(*) FROM running) AS running,
  (SELECT count(*) FROM running WHERE lease_expires_at < statement_timestamp()) AS overdue,
  (SELECT min(lease_expires_at) FROM running) AS first_expiry,
  (SELECT max(priority) FROM running WHERE started_at IS NOT NULL) AS highest,
  (SELECT jsonb_agg(h) FROM (
     SELECT locked_by AS name, count(*) AS jobs, min(lease_expires_at) AS first_expiry,
       max(lease_expires_at) AS last_expiry,
       max(lease_expires_at) FILTER (WHERE NOT cut) AS renewed_to
     FROM running GROUP BY 1 ORDER BY 4 LIMIT {MOST_HOLDERS}) h) AS holders,
  (SELECT jsonb_agg(k) FROM (
     SELECT kind, count(*) AS jobs, min(started_at) AS first_at, max(started_at) AS last_at,
       (array_agg(id ORDER BY started_at, id))[1] AS first_id,
       count(cancel_requested_at) AS asked, min(cancel_requested_at) AS asked_at
     FROM running WHERE started_at IS NOT NULL GROUP BY 1 ORDER BY 3 LIMIT 200) k) AS kinds,
  (SELECT jsonb_agg(h) FROM (
     SELECT f.kind, count(*) AS jobs, min(f.at) AS at FROM (
       SELECT k.kind, j.available_at, greatest(j.available_at, j.created_at) AS at
       FROM unnest(%(held)s::text[]) AS k(kind) CROSS JOIN LATERAL (
         SELECT j.available_at, j.created_at FROM jobs j
         WHERE j.status = 'held' AND j.held_for = 'kind' AND j.kind = k.kind
         ORDER BY j.kind, j.id LIMIT {MOST_HELD + 1}) j
       LIMIT {MOST_HELD_IN_ALL}) f
     WHERE f.available_at <= statement_timestamp() GROUP BY 1) h) AS held,
  (SELECT jsonb_agg(h) FROM (
     SELECT q.kind, count(*) AS jobs, min(greatest(q.available_at, q.created_at)) AS at
     FROM heads p CROSS JOIN LATERAL (
       {next_of_priority("kind, available_at, created_at", HEAD)}) q
     WHERE %(held)s::text[] <> '{{}}' AND q.kind = ANY(%(held)s::text[]) GROUP BY 1) h) AS unmoved,
  greatest({", ".join(_ENDED.format(status=s) for s in ("succeeded", "failed"))},
    {_STOPPED},
    (SELECT max(created_at) FROM tail WHERE event = 'retry_scheduled')) AS ended_at,
  (SELECT jsonb_object_agg(lost->>'holder', lost->>'lease_expires_at' ORDER BY created_at)
   FROM tail WHERE lost ? 'holder') AS lapsed
"""

_OF_KIND = "coalesce((k.value->'events'->>'{event}')::bigint, 0)"
# Of the claims that were given back it is not known whether they were retries: so as few as may be.
_RETRIES = f"""greatest(0, coalesce((k.value->>'retries')::bigint, 0)
       - {_OF_KIND.format(event="released")} - {_OF_KIND.format(event="deferred")})"""
_FAILURES = f"""{_OF_KIND.format(event="failed")}
         + {_OF_KIND.format(event="retry_scheduled")}"""

# ``recent``: the kinds with the most failed attempts of ten minutes (``KindCounts``). ``runs``: of
# those that run now. ``uncounted_at``: of the first move of a job behind the newest line, if that
# could not take all. ``sums``: of lines that do not tell them, as an older release wrote them.
MINUTES = f"""
WITH lines AS MATERIALIZED (
  SELECT id, created_at, data FROM job_events
  WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue' AND {LATELY}
  ORDER BY id DESC LIMIT {MOST_LINES}
),
hour AS MATERIALIZED (
  SELECT id, created_at, data->>'since' AS since, data->'all' AS whole,
    CASE WHEN NOT data ? 'all' OR {_RECENT} THEN data->'kinds' END AS kinds
  FROM lines WHERE created_at > statement_timestamp() - interval '62 min'
),
run_lines AS MATERIALIZED (
  SELECT data->'kinds' AS kinds FROM lines ORDER BY id DESC LIMIT {RUN_LINES}),
kinds AS MATERIALIZED (
  SELECT h.id, h.created_at, h.whole IS NULL AS is_alone, e.key AS kind, e.value FROM hour h
  CROSS JOIN LATERAL jsonb_each({object_or_null("h.kinds")}) e
),
sums AS MATERIALIZED (
  SELECT id, part, jsonb_object_agg(key, n) AS counts FROM (
    SELECT k.id, p.part, e.key, sum(e.value::bigint) AS n
    FROM kinds k CROSS JOIN unnest(ARRAY['events', 'wait']) AS p(part)
    CROSS JOIN LATERAL jsonb_each_text({object_or_null("k.value->p.part")}) e
    WHERE k.is_alone GROUP BY 1, 2, 3) s
  GROUP BY 1, 2
),
counted AS MATERIALIZED (
  SELECT (data->>'xid')::xid8 AS xid, (data->>'id')::bigint AS id
  FROM (SELECT data FROM lines ORDER BY id DESC LIMIT 1) newest WHERE data->>'full' = 'true'
)
SELECT statement_timestamp() AS now,
  (SELECT min(u.created_at) FROM counted c CROSS JOIN LATERAL (
     SELECT job_id, created_at FROM job_events e
     WHERE {LATELY} AND (e.xid, e.id) > (c.xid, c.id)
       AND e.xid < pg_snapshot_xmax(pg_current_snapshot())
     ORDER BY e.xid, e.id LIMIT {TAIL}) u WHERE u.job_id IS NOT NULL) AS uncounted_at,
  (SELECT jsonb_agg(jsonb_build_object(
     'at', h.created_at, 'since', h.since,
     'events', coalesce(h.whole->'events', events.counts),
     'waits', coalesce(h.whole->'wait', waits.counts),
     'retries', coalesce((h.whole->>'retries')::bigint, retries.n),
     'later', h.whole->'later', 'due', h.whole->'due') ORDER BY h.id)
   FROM hour h
   LEFT JOIN sums events ON events.id = h.id AND events.part = 'events'
   LEFT JOIN sums waits ON waits.id = h.id AND waits.part = 'wait'
   LEFT JOIN (SELECT k.id, sum({_RETRIES}) AS n FROM kinds k
     WHERE k.is_alone GROUP BY 1) retries ON retries.id = h.id
  ) AS minutes,
  (SELECT jsonb_agg(r) FROM (
     SELECT b.kind, sum(b.starts) AS starts, sum(b.retries) AS retries,
       sum(b.attempts) AS attempts, sum(b.failures) AS failures, sum(b.arrived) AS arrived,
       coalesce(sum(b.attempts) FILTER (WHERE b.created_at > b.bad_at), 0) AS since,
       coalesce(sum(b.failures) FILTER (WHERE b.created_at > b.bad_at), 0) AS since_failed,
       max(b.bad_at) AS bad_at, jsonb_agg(b.created_at) FILTER (WHERE b.attempts > 0) AS ended_in
     FROM (
       SELECT c.*, max(c.created_at) FILTER (WHERE c.failures > %(failing)s::float8 * c.attempts)
         OVER (PARTITION BY c.kind) AS bad_at
       FROM (
         SELECT k.kind, k.created_at, {_OF_KIND.format(event="claimed")} AS starts,
           {_RETRIES} AS retries, {_FAILURES} AS failures,
           {_OF_KIND.format(event="succeeded")} + {_FAILURES} AS attempts,
           {_OF_KIND.format(event="enqueued")} + {_OF_KIND.format(event="requeued")}
             + coalesce((k.value->>'due')::bigint, 0) - coalesce((k.value->>'later')::bigint, 0)
             AS arrived
         FROM kinds k WHERE {_RECENT}) c) b
     GROUP BY 1 ORDER BY failures DESC, retries DESC, arrived DESC LIMIT {MOST_RECENT}
   ) r) AS recent,
  (SELECT jsonb_object_agg(k.kind, k.buckets) FROM (
     SELECT b.kind, jsonb_object_agg(b.bucket, b.n) AS buckets FROM (
       SELECT r.kind, e.key AS bucket, sum(e.value::bigint) AS n
       FROM run_lines l
       CROSS JOIN unnest(%(running)s::text[]) AS r(kind)
       CROSS JOIN LATERAL jsonb_each_text({object_or_null("l.kinds->r.kind->'run'")}) e
       GROUP BY 1, 2) b GROUP BY 1) k) AS runs
"""

_CAUSE = "id, kind, attempts, error_class, error_fingerprint"

# The newest failures of a day and what waits, by cause, in the order of the page of causes.
# ``ever_at``: the first such failure that there is a row of, or that such a row had before.
GROUPS_OF = f"""
WITH RECURSIVE {PRIORITIES},
failed AS MATERIALIZED (
  SELECT {_CAUSE}, finished_at FROM jobs
  WHERE status = 'failed' AND finished_at IS NOT NULL AND finished_at < 'infinity'
    AND finished_at > statement_timestamp() - interval '24 h'
  ORDER BY finished_at DESC LIMIT {MOST_FAILURES}
),
looked AS MATERIALIZED (
  SELECT s.*, p.priority FROM priorities p CROSS JOIN LATERAL (
    ({next_of_priority(f"{_CAUSE}, available_at, true AS is_due", HEAD)}) UNION ALL
    ({next_of_priority(f"{_CAUSE}, available_at, false", HEAD, LATER)})) s LIMIT {MOST_SOONEST}
),
retrying AS MATERIALIZED (
  SELECT {_CAUSE}, NULL::timestamptz AS finished_at FROM looked
  WHERE error_fingerprint IS NOT NULL LIMIT {MOST_FAILURES}
),
on_hold AS MATERIALIZED (
  SELECT * FROM (SELECT {_CAUSE}, NULL::timestamptz AS finished_at FROM jobs
    WHERE status = 'held' AND held_for = 'kind' ORDER BY kind, id LIMIT {HEAD}) h
  WHERE h.error_fingerprint IS NOT NULL
),
groups AS (
  SELECT error_fingerprint AS fingerprint, count(finished_at) AS failed,
    count(*) - count(finished_at) AS retrying, max(finished_at) AS last_at,
    count(*) FILTER (WHERE finished_at IS NULL AND attempts = 0) AS anew,
    count(*) FILTER (WHERE finished_at IS NULL
      OR finished_at > statement_timestamp() - interval '{failures.LATELY_S} s') AS lately,
    (array_agg(error_class ORDER BY finished_at DESC NULLS LAST, id DESC))[1] AS error_class,
    (array_agg(kind ORDER BY finished_at DESC NULLS LAST, id DESC))[1] AS kind,
    count(DISTINCT kind) AS kinds, (array_agg(DISTINCT kind))[1:{MOST_HIT}] AS hit,
    max(id) AS sample,
    (array_agg(id ORDER BY id) FILTER (WHERE finished_at IS NOT NULL))[1:{line.SHOWN_IDS}] AS first
  FROM (TABLE failed UNION ALL TABLE retrying UNION ALL TABLE on_hold) all_
  GROUP BY 1 ORDER BY lately DESC, count(*) DESC, error_fingerprint COLLATE "C" LIMIT {GROUPS}
)
SELECT (SELECT count(*) FROM failed) AS failed, (SELECT count(*) FROM retrying) AS retrying,
  (SELECT min(finished_at) FROM failed) AS back_to,
  (SELECT count(*) FROM looked) >= {MOST_SOONEST} OR EXISTS (
    SELECT FROM looked GROUP BY priority, is_due HAVING count(*) >= {HEAD}
      AND max(available_at) < statement_timestamp() + interval '{RETRIES_S} s') AS is_cut,
  (SELECT jsonb_agg(to_jsonb(g) - 'first') FROM (
     SELECT groups.*, least((
       SELECT j.finished_at FROM jobs j
       WHERE j.status = 'failed' AND j.error_fingerprint = groups.fingerprint
       ORDER BY j.finished_at LIMIT 1), (
       SELECT min(f.first_at) FROM (SELECT unnest(first), fingerprint) w(id, fingerprint)
       CROSS JOIN LATERAL {failed_so.TIMES} f)) AS ever_at
     FROM groups ORDER BY lately DESC, failed + retrying DESC, fingerprint COLLATE "C") g) AS groups
"""
