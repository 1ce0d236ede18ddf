"""Operations: no snapshots here. Who writes is alone, so the order of ids is that of commits."""

from __future__ import annotations

from queueapp.jobs.operations import canary, driver, listing, planning, state, undo, undone
from queueapp.jobs.sqlite.replacements import reworded

_LINES = """
SELECT scope, id, event, actor, reason, created_at,
  CASE WHEN event IN ('op_batch', 'op_done') THEN json_remove(data, '$.jobs') ELSE data END
    AS "data [json_text]"
FROM job_events
WHERE id IN (
  SELECT max(id) FROM job_events
  WHERE job_id IS NULL AND scope {which} AND event IN
    ('op_planned', 'op_counted', 'op_begun', 'op_canary', 'op_batch', 'op_stopped', 'op_done')
  GROUP BY scope, event)
"""
reworded(state._LINES, _LINES.format(which="= :scope"))
reworded(listing._LINES_OF_MANY, _LINES.format(which="IN (SELECT value FROM json_each(:scopes))"))

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

# The way back

_BATCHES = "job_id IS NULL AND event IN ('op_batch', 'op_done') AND scope = :scope"

reworded(
    undo._NEXT,
    f"""
SELECT id, data -> '$.jobs' AS "jobs [json_text]" FROM job_events
WHERE {_BATCHES} AND id > :after AND id <= :upto ORDER BY id LIMIT 1
""",
)

reworded(
    listing._NAMED,
    f"""
SELECT id, data -> '$.jobs' AS "jobs [json_text]" FROM job_events
WHERE {_BATCHES} AND id <= :upto ORDER BY id DESC LIMIT 1
""",
)

reworded(
    undo._END,
    f"""
SELECT max(id) AS upto, coalesce(min(json_type(data, '$.jobs') IS NOT NULL), 0) AS named
FROM job_events WHERE id IN (SELECT max(id) FROM job_events WHERE {_BATCHES} GROUP BY event)
""",
)

reworded(
    undo._OWN,
    """
SELECT a.value AS id, l.event, l.from_status, l.to_status, l.data ->> '$.was.held_for' AS held_for,
  l.data ->> '$.was.priority' AS priority, l.data ->> '$.was.available_at' AS available_at
FROM json_each(:ids) a
JOIN job_events l ON l.id = (
  SELECT max(e.id) FROM job_events e
  WHERE e.job_id = a.value AND e.event NOT IN ('stale_write_rejected', 'cloned'))
WHERE l.data ->> 'operation' = :operation
ORDER BY a.value
""",
)

reworded(
    undone._UNDOS,
    """
SELECT scope, created_at FROM job_events
WHERE job_id IS NULL AND event = 'op_planned' AND created_at >= :since
  AND data ->> '$.undoes' IN (SELECT value FROM json_each(:ids))
ORDER BY id DESC LIMIT 200
""",
)

# Canaries

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
