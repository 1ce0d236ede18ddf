"""The reading of jobs that may take workers down: one statement, bounded."""

from __future__ import annotations

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.queries.line import HEAD, MOST_SOONEST
from queueapp.jobs.verdict.statements import LATELY, MOST_FAILURES

# Jobs whose history is looked at, and those among which they are sought.
MOST_SUSPECTS, KILLED = 50, 2

# Jobs that lost more than one lease in this life, and never failed with anything else in it.
SUSPECTS = f"""
WITH RECURSIVE {PRIORITIES},
candidates AS MATERIALIZED (
  (SELECT id, kind, status, attempts, cancel_requested_at AS asked_at FROM (
     SELECT id, kind, status, attempts, cancel_requested_at FROM jobs WHERE status = 'running'
     ORDER BY claimed_at DESC, id DESC LIMIT {MOST_FAILURES}) r
   WHERE attempts > {KILLED} ORDER BY attempts DESC LIMIT {MOST_SUSPECTS})
  UNION ALL
  (SELECT s.id, s.kind, 'queued', s.attempts, NULL FROM (
     SELECT s.* FROM priorities p CROSS JOIN LATERAL (
       SELECT id, kind, attempts, error_class FROM jobs
       WHERE status = 'queued' AND priority = p.priority
         AND available_at > statement_timestamp() - interval '5 min'
       ORDER BY available_at, created_at, id LIMIT {HEAD}) s
     LIMIT {MOST_SOONEST}) s
   WHERE s.error_class = 'LeaseLost' AND s.attempts >= {KILLED}
   LIMIT {MOST_SUSPECTS})
  UNION ALL
  (SELECT id, kind, 'failed', attempts, NULL FROM (
     SELECT id, kind, attempts, error_class FROM jobs
     WHERE status = 'failed' AND finished_at IS NOT NULL AND finished_at < 'infinity'
       AND finished_at > statement_timestamp() - interval '1 h'
     ORDER BY finished_at DESC LIMIT {MOST_FAILURES}) f
   WHERE error_class = 'LeaseLost' AND attempts >= {KILLED} LIMIT {MOST_SUSPECTS})
)
SELECT c.id, c.kind, c.status, lost.times, lost.holders, lost.first_at, lost.last_at, c.asked_at
FROM candidates c CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE e.event = 'lease_expired') AS times,
    array_agg(e.data->>'holder') FILTER (WHERE e.event = 'lease_expired') AS holders,
    min(e.created_at) FILTER (WHERE e.event = 'lease_expired') AS first_at,
    max(e.created_at) FILTER (WHERE e.event = 'lease_expired') AS last_at,
    count(*) FILTER (WHERE e.event IN ('failed', 'retry_scheduled')
      AND e.data->>'error_class' IS DISTINCT FROM 'LeaseLost') AS raised
  FROM (SELECT * FROM job_events
        WHERE job_id = c.id AND {LATELY} ORDER BY id DESC LIMIT 200) e
  WHERE e.id > coalesce((SELECT max(r.id) FROM job_events r
    WHERE r.job_id = c.id AND r.event = 'requeued' AND r.created_at >= %(lately)s::timestamptz
      AND r.created_at < %(tomorrow)s::timestamptz), 0)
) lost
WHERE lost.times >= {KILLED} AND lost.raised = 0
ORDER BY lost.times DESC, c.id LIMIT 10
"""
