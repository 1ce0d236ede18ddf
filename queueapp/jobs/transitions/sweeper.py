"""Expire: give back what was lost with its holder. Any worker may do it, none leads.

Two statements in one transaction: lock the overdue leases and say so in the ledger, ask ``backoff``
what becomes of each, then the same settle as a worker's own. The caller opens the transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from queueapp.jobs.backoff import Backoff, after_failure, after_lost_lease
from queueapp.jobs.database import Database, run
from queueapp.jobs.failure import described
from queueapp.jobs.status import Reason
from queueapp.jobs.transitions.lost_lease import LEASE_COLUMNS, Expired, end, logged, lost
from queueapp.jobs.transitions.settle import Outcome

BATCH = 100

# ``low``: nothing older than this was running a moment ago, so the dead entries before it are not
# walked again. A time-out is no lost lease: the holder is alive, its attempt is over.
_OVERDUE = f"""
WITH overdue AS MATERIALIZED (
  SELECT {LEASE_COLUMNS},
    coalesce(started_at + make_interval(
      secs => nullif(coalesce(timeout_s, %(job_timeout)s::float8), 0)) <= clock_timestamp(), false)
      AS timed_out
  FROM jobs
  WHERE status = 'running' AND claimed_at >= coalesce(%(low)s::timestamptz, '-infinity')
    AND lease_expires_at < clock_timestamp() AND lease_token <> ALL(%(spare)s::uuid[])
  ORDER BY claimed_at, id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
),{logged("overdue WHERE NOT timed_out")}
SELECT * FROM overdue ORDER BY claimed_at, id
"""

# FOR SHARE: sweepers that look at the same time must not take each other for a holder.
_LOCKED = """
WITH overdue AS MATERIALIZED (
  SELECT id, lease_token FROM jobs
  WHERE status = 'running' AND claimed_at >= coalesce(%(low)s::timestamptz, '-infinity')
    AND lease_expires_at < clock_timestamp()
  ORDER BY claimed_at, id LIMIT 10000
)
SELECT o.lease_token FROM overdue o LEFT JOIN LATERAL (
  SELECT j.id FROM jobs j
  WHERE j.id = o.id AND j.lease_token = o.lease_token FOR SHARE SKIP LOCKED
) free ON true
WHERE free.id IS NULL
"""


def expire(
    database: Database,
    *,
    actor: str,
    backoff: Backoff,
    job_timeout_s: float = 0,
    low: datetime | None = None,
    limit: int = BATCH,
    spare: Collection[UUID] = (),
) -> list[Expired]:
    """End up to ``limit`` overdue leases but those to ``spare``, oldest claim first from ``low``.

    A holder that comes back finds its token gone and its result refused. Does not commit.
    """
    rows = run(
        database,
        _OVERDUE,
        me=actor,
        job_timeout=job_timeout_s,
        low=low,
        limit=limit,
        spare=list(spare),
    )
    return end(database, rows, lambda row: _outcome(row, backoff), actor=actor)


def locked_overdue(database: Database, *, low: datetime | None = None) -> set[UUID]:
    """Overdue leases whose rows somebody has locked right now.

    The holder may be alive and kept from writing: it deserves a moment once the row is free.
    """
    return {row.lease_token for row in run(database, _LOCKED, low=low)}


def _outcome(row: Row[Any], backoff: Backoff) -> Outcome:
    if row.timed_out:
        decision = after_failure(row.attempts, row.max_attempts, backoff, reason=Reason.TIMED_OUT)
        failure = described("JobTimeout", "the attempt ran longer than its time-out")
    else:
        started = row.started_at is not None
        decision = after_lost_lease(
            row.attempts, row.max_attempts, row.handbacks, backoff, started=started
        )
        failure = described("LeaseLost", f"the lease of {row.locked_by} ran out")
    return lost(row, decision, failure)
