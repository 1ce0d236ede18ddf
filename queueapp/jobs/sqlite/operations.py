"""Operations: no snapshots here. Who writes is alone, so the order of ids is that of commits."""

from __future__ import annotations

from queueapp.jobs.operations import canary, driver, planning, state
from queueapp.jobs.sqlite.replacements import reworded

reworded(
    state._LINES,
    """
SELECT id, event, actor, reason, data, created_at FROM job_events
WHERE id IN (
  SELECT max(id) FROM job_events
  WHERE job_id IS NULL AND scope = :scope
    AND event IN ('op_planned', 'op_canary', 'op_batch', 'op_stopped', 'op_done')
  GROUP BY event)
""",
)

# The newest line of the ledger: whatever is above came later.
reworded(
    planning._HORIZON,
    """
SELECT coalesce((SELECT max(id) FROM job_events), 0) || '' AS snapshot,
  coalesce((SELECT max(id) FROM jobs), 0) AS upto
""",
)

reworded(
    driver._UNCHANGED,
    """
SELECT a.value AS id FROM json_each(:ids) a
WHERE NOT EXISTS (
  SELECT 1 FROM job_events e WHERE e.job_id = a.value AND e.id > CAST(:snapshot AS INTEGER))
ORDER BY a.value
""",
)

reworded(
    canary._FATES,
    """
SELECT a.value AS id, j.kind, j.status, j.attempts, j.max_attempts, j.available_at, j.claimed_at,
  ended.to_status AS ended, ended.created_at AS ended_at,
  statement_timestamp() AS "now [instant_text]"
FROM json_each(:ids) a
LEFT JOIN jobs j ON j.id = a.value
LEFT JOIN job_events ended ON ended.id = (
  SELECT min(e.id) FROM job_events e
  WHERE e.job_id = a.value AND e.to_status IN ('succeeded', 'failed', 'cancelled')
    AND e.created_at >= :since AND e.id > (
      SELECT min(r.id) FROM job_events r
      WHERE r.job_id = a.value AND r.event = 'requeued' AND r.data ->> 'operation' = :operation))
ORDER BY a.value
""",
)

reworded(
    canary._OPEN,
    """
SELECT DISTINCT e.scope FROM job_events e
WHERE e.job_id IS NULL AND e.event = 'op_canary' AND e.created_at >= shifted(now(), -604800)
  AND NOT EXISTS (
    SELECT 1 FROM job_events o
    WHERE o.job_id IS NULL AND o.event IN ('op_stopped', 'op_done') AND o.scope = e.scope)
ORDER BY e.scope LIMIT :limit
""",
)
