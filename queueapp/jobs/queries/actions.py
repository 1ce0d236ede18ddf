"""What people have done of late: pauses, holds, operations, and the jobs that they moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from queueapp.jobs.control import SWITCHES
from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Event

# Lines of the ledger that are looked through, newest first. Switches and operations are found by
# their own index, however much has happened since.
LOOKED_AT = 2_000
_CONTROL = (*SWITCHES, Event.DRAIN_REQUESTED, Event.OP_PLANNED, Event.OP_STOPPED, Event.OP_DONE)
_OF_PEOPLE = (
    Event.CANCELLED, Event.CANCEL_REQUESTED, Event.REQUEUED, Event.HELD, Event.UNHELD,
    Event.RESCHEDULED, Event.RESTORED, Event.RELEASED, Event.CLONED, Event.PURGED,
)  # fmt: skip

# One line for all that one transaction or one operation did to jobs. Who moves jobs without a
# person behind it is no person: workers, sweepers, housekeeping, and tokens that give jobs back.
_ACTIONS = """
WITH tail AS MATERIALIZED (
  SELECT id, xid, job_id, scope, event, actor, reason, data, created_at FROM job_events
  WHERE created_at >= statement_timestamp() - interval '1 day'
  ORDER BY xid DESC, id DESC LIMIT %(looked_at)s
),
moved AS (
  SELECT max(id) AS id, max(created_at) AS at, event, actor, max(reason) AS reason,
    count(*) AS jobs, min(job_id) AS job_id, min(data->>'operation') AS operation,
    NULL::text AS scope
  FROM tail
  WHERE event = ANY(%(moves)s) AND job_id IS NOT NULL
    AND (actor LIKE 'user:%%' OR actor LIKE 'cli:%%' OR actor LIKE 'token:%%')
    AND NOT (event = 'released' AND actor LIKE 'token:%%')
  GROUP BY event, actor, coalesce(data->>'operation', xid::text)
),
control AS (
  SELECT id, created_at AS at, event, actor, reason, 0 AS jobs, NULL::bigint AS job_id,
    CASE WHEN scope LIKE 'op:%%' THEN substr(scope, 4) END AS operation, scope
  FROM (
    SELECT id, created_at, event, actor, reason, scope FROM job_events
    WHERE job_id IS NULL AND event = ANY(%(control)s)
      AND created_at >= statement_timestamp() - interval '7 days'
    ORDER BY id DESC LIMIT %(looked_at)s
  ) c
)
SELECT id, at, event, actor, left(reason, 300) AS reason, jobs, job_id, operation, scope
FROM (SELECT * FROM moved UNION ALL SELECT * FROM control) both_
ORDER BY at DESC, id DESC LIMIT %(limit)s
"""

# What people did to the queue in the hour of the charts: no job moved by hand crowds it out. A plan
# changes nothing before somebody begins it; who goes on with one that is begun begins no other.
_MARKS = """
SELECT id, created_at AS at, event, actor, NULL AS reason, 0 AS jobs, NULL AS job_id,
  NULL AS operation, scope
FROM job_events
WHERE job_id IS NULL AND event = ANY(%(events)s) AND data->>'begun_by' IS NULL
  AND created_at >= statement_timestamp() - interval '1 hour'
ORDER BY id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True)
class Action:
    """One act. ``jobs``: how many were moved, ``job_id`` one of them; 0 for what is not about jobs.

    ``scope``: of a switch ``queue`` or ``kind:<kind>``, of an operation ``op:<id>``, of a drain
    ``worker:<name>``.
    """

    id: int
    at: datetime
    event: str
    actor: str
    reason: str | None
    jobs: int
    job_id: int | None
    operation: str | None
    scope: str | None


def last_actions(database: Database, limit: int = 10) -> Sequence[Action]:
    """The last acts of people, newest first.

    Moves of jobs are sought among the newest LOOKED_AT lines of the ledger only.
    """
    rows: Any = run(
        database,
        _ACTIONS,
        looked_at=LOOKED_AT,
        moves=[str(event) for event in _OF_PEOPLE],
        control=[str(event) for event in _CONTROL],
        limit=limit,
    )
    return [Action(**row._asdict()) for row in rows]


def marks_of_hour(database: Database, limit: int = 60) -> Sequence[Action]:
    """The pauses, holds and operations that were begun of the last hour, newest first."""
    events = [str(event) for event in (*SWITCHES, Event.OP_BEGUN)]
    rows: Any = run(database, _MARKS, events=events, limit=limit)
    return [Action(**row._asdict()) for row in rows]
