"""Switches outlive the day of the ledger that they stand in: they are written again as it goes."""

from __future__ import annotations

from queueapp.jobs.control import SWITCH_EVENTS
from queueapp.jobs.database import Database, run

# What the day's switches are worth once the day is gone: one in force, or a lift that hides an
# older switch elsewhere. All else can go.
_CARRY = """
INSERT INTO job_events (scope, event, actor, data)
SELECT latest.scope, 'control_carried', %(actor)s, latest.told FROM (
  SELECT DISTINCT ON (scope) scope, tableoid,
    CASE event WHEN 'control_carried' THEN data
      ELSE coalesce(data, jsonb_build_object())
        || jsonb_build_object('event', event, 'actor', actor, 'reason', reason, 'at', created_at)
    END AS told
  FROM job_events WHERE job_id IS NULL AND event = ANY(%(switches)s)
  ORDER BY scope, id DESC
) latest
WHERE latest.tableoid = %(table)s::regclass AND (
  latest.told->>'event' IN ('queue_paused', 'kind_held')
  OR EXISTS (
    SELECT FROM job_events e WHERE e.job_id IS NULL AND e.event = ANY(%(switches)s)
      AND e.scope = latest.scope AND e.tableoid <> latest.tableoid))
ORDER BY latest.scope
RETURNING scope
"""


def carry(database: Database, table: str, *, actor: str) -> list[str]:
    """Write again what is in force and stands in ``table``, a day to be dropped; the scopes.

    Nobody may write a switch meanwhile: the caller has locked the ledger.
    """
    rows = run(database, _CARRY, table=table, actor=actor, switches=SWITCH_EVENTS)
    return [row.scope for row in rows]
