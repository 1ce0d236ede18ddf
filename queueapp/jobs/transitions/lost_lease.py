"""A lease that was lost with its holder: the event that says so, and how its attempt ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.backoff import Decision
from queueapp.jobs.database import Database, wake_on_commit
from queueapp.jobs.failure import Failure
from queueapp.jobs.transitions.settle import Outcome, settle

# What is read of a job whose lease is taken from its holder.
LEASE_COLUMNS = """id, kind, lease_token, locked_by, lease_expires_at, claimed_at, started_at,
    attempts, max_attempts, handbacks"""

_LOGGED = """
logged AS (
  INSERT INTO job_events
    (job_id, kind, event, from_status, to_status, attempt, lease_token, actor, reason, data)
  SELECT id, kind, 'lease_expired', 'running', 'running', attempts, lease_token, %(me)s, NULL,
    jsonb_build_object('holder', locked_by, 'lease_expires_at', lease_expires_at{told})
  FROM {rows} ORDER BY id
)"""


@dataclass(frozen=True)
class Expired:
    """A lease that was taken from its holder, and the status its job came to."""

    id: int
    kind: str
    holder: str
    attempt: int
    status: str
    timed_out: bool


def logged(rows: str, *, told: str = "") -> str:
    """The part of a statement that writes an event for each of ``rows``; ``told``: more of it."""
    return _LOGGED.format(rows=rows, told=told)


def end(
    database: Database,
    rows: Sequence[Row[Any]],
    outcome: Callable[[Row[Any]], Outcome],
    *,
    actor: str,
) -> list[Expired]:
    """Settle the attempts of ``rows`` as ``outcome`` says of each, and tell idle workers."""
    if not rows:
        return []
    statuses = settle(database, [outcome(row) for row in rows], actor=actor)
    if "queued" in statuses.values():
        wake_on_commit(database)
    return [
        Expired(
            row.id,
            row.kind,
            row.locked_by,
            row.attempts,
            statuses[row.lease_token],
            getattr(row, "timed_out", False),
        )
        for row in rows
    ]


def lost(row: Row[Any], decision: Decision, failure: Failure) -> Outcome:
    """How the attempt ends whose holder does not end it itself."""
    return Outcome(
        id=row.id,
        token=row.lease_token,
        verb=decision.verb,
        claimed_at=row.claimed_at,
        delay_s=decision.delay_s,
        failure=failure,
        reason=decision.reason,
        data={
            "holder": row.locked_by,
            "error_class": failure.error_class,
            "error_message": failure.message,
        },
    )
