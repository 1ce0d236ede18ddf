"""Apply an operation, one batch at a time, and stop it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from queueapp.errors import OperationBusy
from queueapp.jobs import control
from queueapp.jobs.database import Database, run
from queueapp.jobs.operations.state import Operation, find, scope_of
from queueapp.jobs.operations.verbs import VERBS
from queueapp.jobs.operations.walk import lock_next
from queueapp.jobs.status import Event

BATCH = 500
# How long one look for the next jobs may go on where there are none.
LOOK_S = 0.5

_TRY_TO_DRIVE = "SELECT pg_try_advisory_xact_lock(%(key)s::bigint) AS mine"
# Held for the length of one insert: whoever writes the end of an operation.
_END = "SELECT pg_advisory_xact_lock(%(key)s::bigint)"

# The rows are locked, so nothing can be said of them meanwhile. ``since`` leaves out the partitions
# that are older than any transaction which the plan can have met.
_UNCHANGED = """
SELECT a.id FROM unnest(%(ids)s::bigint[]) AS a(id)
WHERE (
  SELECT e.id FROM job_events e
  WHERE e.job_id = a.id AND e.created_at >= %(since)s::timestamptz
    AND NOT pg_visible_in_snapshot(e.xid, %(snapshot)s::pg_snapshot)
  LIMIT 1) IS NULL
ORDER BY a.id
"""
_LONGEST_TRANSACTION = timedelta(days=1)


def step(session: Session, operation_id: str, *, actor: str, via: str) -> Operation:
    """Move the next batch, at most ``BATCH`` jobs, and return the operation as it is then.

    Nothing is done to one that is over. Raises OperationNotFound, and OperationBusy while another
    driver is at work. Commit after each step: that lets go of the jobs and of the operation.
    """
    if not run(session, _TRY_TO_DRIVE, key=_key(operation_id))[0].mine:
        raise OperationBusy(
            f"somebody else is applying operation {operation_id}", operation=operation_id
        )
    # Read only now: another driver may have written until the lock was free.
    operation = find(session, operation_id)
    if operation.is_over:
        return operation
    ids, after = lock_next(session, operation.place, BATCH, seconds=LOOK_S)
    moved = operation.moved + _move(session, operation, ids, actor=actor, via=via)
    come: dict[str, Any] = {"after": after, "moved": moved}
    event = Event.OP_BATCH
    if after >= operation.upto and not _is_stopped(session, operation_id):
        event = Event.OP_DONE
        come["skipped"] = _skipped(operation, moved)
    _record(session, event, operation_id, actor=actor, data=come)
    return find(session, operation_id)


def stop(session: Session, operation_id: str, *, actor: str, reason: str | None) -> Operation:
    """Let no further batch begin; one that is at work is completed. What is over stays as it is.

    Raises OperationNotFound.
    """
    find(session, operation_id)
    run(session, _END, key=_key(operation_id, end=True))
    if not find(session, operation_id).is_over:
        _record(session, Event.OP_STOPPED, operation_id, actor=actor, reason=reason, data={})
    return find(session, operation_id)


def _move(session: Session, operation: Operation, ids: list[int], *, actor: str, via: str) -> int:
    verb = VERBS[operation.verb]
    since = operation.planned_at - _LONGEST_TRANSACTION
    kept = run(session, _UNCHANGED, ids=ids, since=since, snapshot=operation.snapshot)
    by = {"actor": actor, "reason": operation.reason, "via": via, "operation": operation.id}
    return len(verb.move(session, [row.id for row in kept], **verb.how, **operation.how, **by))


def _is_stopped(session: Session, operation_id: str) -> bool:
    """Whether somebody has stopped it meanwhile; nobody can after that, up to our commit."""
    run(session, _END, key=_key(operation_id, end=True))
    return find(session, operation_id).is_over


def _skipped(operation: Operation, moved: int) -> int | None:
    return max(0, operation.counts.total - moved) if operation.counts.whole else None


def _key(operation_id: str, *, end: bool = False) -> int:
    """The number of an operation's lock: the id's own 64 bits, signed."""
    number = int(operation_id, 16) ^ int(end)
    return number - 2**64 if number >= 2**63 else number


def _record(
    database: Database, event: Event, operation_id: str, *, actor: str, **told: Any
) -> None:
    control.record(database, event, scope=scope_of(operation_id), actor=actor, **told)
