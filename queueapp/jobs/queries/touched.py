"""Which jobs an operation has moved: the lines of its batches in the ledger name them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, literal_column, select
from sqlalchemy.orm import aliased

from queueapp.jobs.database import Database, run
from queueapp.jobs.models import Job, JobEvent

# 500,000 jobs in full batches. The names of more are not read at once.
_MOST_LINES = 1_000

# A probe for each name. The jobs of a line stand in the order of their ids.
_TOUCHED = """
WITH lines AS MATERIALIZED (
  SELECT l.id, l.data FROM unnest(ARRAY['op_canary', 'op_batch', 'op_done']) AS n(event)
  CROSS JOIN LATERAL (
    SELECT e.id, e.data FROM job_events e
    WHERE e.job_id IS NULL AND e.event = n.event AND e.scope = %(scope)s
    ORDER BY e.id DESC LIMIT %(lines)s
  ) l
)
SELECT count(*) AS lines, coalesce(bool_and(l.data ? 'jobs'), true) AS named,
  coalesce(max((l.data->>'moved')::bigint), 0) AS moved,
  min((l.data#>>'{jobs,0}')::bigint) AS lowest, max((l.data#>>'{jobs,-1}')::bigint) AS highest,
  ARRAY(
    SELECT DISTINCT newest.id FROM (
      SELECT job.id::bigint AS id FROM (SELECT * FROM lines ORDER BY id DESC) o
      CROSS JOIN jsonb_array_elements_text(o.data->'jobs') AS job(id) LIMIT %(limit)s
    ) newest) AS ids
FROM lines l
"""


@dataclass(frozen=True)
class Touched:
    """The jobs that an operation has moved so far; some of them where it is not ``whole``.

    None has an id below ``lowest`` or above ``highest``.
    """

    ids: list[int]
    whole: bool
    lowest: int
    highest: int


def touched_by(database: Database, operation: str, limit: int) -> Touched | None:
    """The jobs of ``operation``, ``limit`` at most; None where its lines do not name them."""
    scope = f"op:{operation}"
    [row] = run(database, _TOUCHED, scope=scope, lines=_MOST_LINES, limit=limit)
    if not row.named:
        return None
    all_read = row.lines < _MOST_LINES
    whole = all_read and row.moved < limit
    return Touched(row.ids, whole, row.lowest or 0 if all_read else 0, row.highest or 0)


def is_touched_by(operation: str) -> ColumnElement[bool]:
    """Whether a job is among them, by its own lines: for whoever looks at rows one by one.

    They were written before the line of their batch and after the plan, which leaves out the other
    days of the ledger. Not an EXISTS: that may be turned into a join with all of a day's lines.
    """
    own, plan, batch = aliased(JobEvent), aliased(JobEvent), aliased(JobEvent)
    scope = f"op:{operation}"
    planned = select(func.min(plan.created_at)).where(
        plan.job_id.is_(None), plan.event == literal_column("'op_planned'"), plan.scope == scope
    )
    batches = ("'op_canary'", "'op_batch'", "'op_done'")
    last = select(func.max(batch.created_at)).where(
        batch.job_id.is_(None),
        batch.event.in_([literal_column(name) for name in batches]),
        batch.scope == scope,
    )
    line = select(own.id).where(
        own.job_id == Job.id,
        own.created_at >= planned.scalar_subquery(),
        own.created_at <= last.scalar_subquery(),
        own.data["operation"].astext == operation,
    )
    return line.limit(1).correlate(Job).scalar_subquery().is_not(None)
