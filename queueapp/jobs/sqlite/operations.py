"""Operations: no snapshots here. Who writes is alone, so the order of ids is that of commits."""

from __future__ import annotations

from queueapp.jobs.operations import driver, planning, state
from queueapp.jobs.sqlite.replacements import reworded

reworded(
    state._LINES,
    """
SELECT id, event, actor, reason, data, created_at FROM job_events
WHERE id IN (
  SELECT max(id) FROM job_events
  WHERE job_id IS NULL AND scope = :scope
    AND event IN ('op_planned', 'op_batch', 'op_stopped', 'op_done')
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
