"""Take back at once what a process held that is certainly dead: its parent has seen it end.

The same end as ``expire`` gives a lease that ran out, without the wait for it. A process that died
by itself was perhaps killed by a job. Certain it is only if nothing else was in the process: such a
death is blamed on the job, and ends it failed if it is at least the third crash in its life that it
was there for, in whatever company the earlier ones were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.backoff import Backoff, after_lost_lease
from queueapp.jobs.database import Database, run
from queueapp.jobs.failure import described
from queueapp.jobs.transitions.lost_lease import LEASE_COLUMNS, Expired, end, logged, lost
from queueapp.jobs.transitions.settle import Outcome

# ``suspects`` counts rows that somebody has locked as well, and claims that may not have begun: who
# was not alone is not blamed. A locked row is left to the sweeper.
_TOLD = ", 'died', %(died)s::text, 'crashed', %(crashed)s::bool, 'suspects', s.number"
_TAKE_BACK = f"""
WITH held AS MATERIALIZED (
  SELECT {LEASE_COLUMNS}
  FROM jobs WHERE status = 'running' AND locked_by = %(holder)s
  ORDER BY claimed_at, id FOR NO KEY UPDATE SKIP LOCKED
),
suspects AS MATERIALIZED (
  SELECT count(*) AS number FROM jobs WHERE status = 'running' AND locked_by = %(holder)s
),{logged("held, suspects s", told=_TOLD)}
SELECT h.*, CASE WHEN %(crashed)s::bool AND s.number = 1 THEN 1 + (
    SELECT count(*) FROM job_events e
    WHERE e.job_id = h.id AND e.event = 'lease_expired' AND (e.data->>'crashed')::bool
      AND e.id > coalesce((SELECT max(r.id) FROM job_events r
                           WHERE r.job_id = h.id AND r.event = 'requeued'), 0)
  ) ELSE 0 END AS kills
FROM held h, suspects s ORDER BY h.claimed_at, h.id
"""


@dataclass(frozen=True)
class Death:
    """How a worker process ended. ``crashed``: by itself, nobody had asked or killed it."""

    holder: str
    how: str
    crashed: bool


def take_back(database: Database, death: Death, *, actor: str, backoff: Backoff) -> list[Expired]:
    """End every lease that the dead process held. Does not commit: call it in a transaction."""
    rows = run(
        database,
        _TAKE_BACK,
        holder=death.holder,
        me=actor,
        died=death.how,
        crashed=death.crashed,
    )
    return end(database, rows, lambda row: _outcome(row, death, backoff), actor=actor)


def _outcome(row: Row[Any], death: Death, backoff: Backoff) -> Outcome:
    decision = after_lost_lease(
        row.attempts,
        row.max_attempts,
        row.handbacks,
        backoff,
        started=row.started_at is not None,
        kills=row.kills,
    )
    where = "alone in it" if row.kills else "in it"
    failure = described(
        "LeaseLost", f"its worker {row.locked_by} died ({death.how}) with this job {where}"
    )
    return lost(row, decision, failure)
