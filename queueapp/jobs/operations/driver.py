"""Count an operation's jobs, apply it one batch at a time, decide on its canary, and stop it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from queueapp.errors import OperationBusy, OperationNeedsAdmin
from queueapp.jobs import control
from queueapp.jobs.database import Database, run
from queueapp.jobs.operations import undo
from queueapp.jobs.operations.canary import Verdict, trials_of, verdict_of
from queueapp.jobs.operations.planning import count_on
from queueapp.jobs.operations.state import (
    LONGEST_TRANSACTION,
    Operation,
    find,
    key_of,
    scope_of,
    written_tally,
)
from queueapp.jobs.operations.verbs import FOR_ADMINS, VERBS
from queueapp.jobs.operations.walk import lock_next
from queueapp.jobs.status import Event
from queueapp.jobs.transitions import By, Moved

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


def step(
    database: Database, operation_id: str, *, actor: str, via: str, most: int | None = None
) -> Operation:
    """Move the next batch, at most ``BATCH`` jobs, and return the operation as it is then.

    One that is not counted yet is counted for about a second instead. Nothing is done to one that
    is over, or while its canary is on trial. ``most``: how many jobs ``actor`` may move; None: all
    there are. Raises OperationNotFound, OperationNeedsAdmin for more than that, and OperationBusy
    while another driver is at work. Commit after each step: that lets go of the jobs and of the
    operation.
    """
    operation = _drive(database, operation_id)
    if operation.is_over or operation.is_on_trial:
        return operation
    if operation.state == "counting":
        return _count(database, operation, actor=actor)
    refuse_beyond(operation, most)
    if operation.driven_by != actor:
        _begin(database, operation, actor=actor, via=via)
    return _next_batch(database, operation, actor=actor, via=via)


def count(database: Database, operation_id: str, *, actor: str) -> Operation:
    """Go on counting for about a second, if there is anything left to count. Moves no job.

    Raises and is to be committed as ``step`` is.
    """
    operation = _drive(database, operation_id)
    if operation.state != "counting":
        return operation
    return _count(database, operation, actor=actor)


def refuse_verb(verb: str, most: int | None) -> None:
    """Raise OperationNeedsAdmin for a verb of admins, unless one asks: ``most`` is None."""
    if most is not None and verb in FOR_ADMINS:
        raise OperationNeedsAdmin(f"only an admin may plan a {verb}: there is no undo")


def refuse_beyond(operation: Operation, most: int | None) -> None:
    """Raise OperationNeedsAdmin for an operation on more jobs than ``most``, on all of them, or
    with a verb of admins.
    """
    if most is None:
        return
    if operation.verb in FOR_ADMINS:
        detail = f"there is no undo of a {operation.verb}"
    elif operation.is_of_everything:
        detail = "its filter is empty, so it is for every job there is"
    elif operation.counts.total > most:
        detail = f"it is for {operation.counts.total:,} jobs, and an operator may move {most:,}"
    else:
        return
    raise OperationNeedsAdmin(
        f"an admin has to apply operation {operation.id}: {detail}", operation=operation.id
    )


def advance(database: Database, operation_id: str, *, actor: str) -> Operation:
    """What a worker does for a canary retry: decide on it if that can be done, else ``step``.

    Raises and is to be committed as ``step`` is.
    """
    operation = _drive(database, operation_id)
    if operation.is_over:
        return operation
    if operation.is_on_trial:
        return _judge(database, operation, actor=actor)
    return _next_batch(database, operation, actor=actor, via="worker")


def stop(
    database: Database,
    operation_id: str,
    *,
    actor: str,
    reason: str | None,
    via: str | None = None,
) -> Operation:
    """Let no further batch begin; one that is at work is completed. What is over stays as it is.

    Raises OperationNotFound.
    """
    find(database, operation_id)
    if not _is_stopped(database, operation_id):
        told = {"via": via} if via else {}
        _record(database, Event.OP_STOPPED, operation_id, actor=actor, reason=reason, data=told)
    return find(database, operation_id)


def _drive(database: Database, operation_id: str) -> Operation:
    """Be the only driver until the end of the transaction."""
    if not run(database, _TRY_TO_DRIVE, key=key_of(operation_id))[0].mine:
        raise OperationBusy(
            f"somebody else is applying operation {operation_id}", operation=operation_id
        )
    # Read only now: another driver may have written until the lock was free.
    return find(database, operation_id)


def _count(database: Database, operation: Operation, *, actor: str) -> Operation:
    tally = written_tally(count_on(database, operation))
    _record(database, Event.OP_COUNTED, operation.id, actor=actor, data=tally)
    return find(database, operation.id)


def _begin(database: Database, operation: Operation, *, actor: str, via: str) -> None:
    """Who lets jobs be moved, once for each who does: the plan may be another's."""
    told: dict[str, Any] = {
        "verb": operation.verb,
        "counts": operation.counts.by_status,
        "whole": operation.counts.whole,
        "via": via,
    }
    if operation.canary is not None:
        told["canary"] = operation.canary.terms.first
    if operation.begun_by and operation.begun_at:
        told |= {"begun_by": operation.begun_by, "begun_at": operation.begun_at.isoformat()}
    _record(database, Event.OP_BEGUN, operation.id, actor=actor, data=told)


def _next_batch(database: Database, operation: Operation, *, actor: str, via: str) -> Operation:
    canary = operation.canary
    ahead = canary is not None and canary.passed is None
    size = canary.lacks if canary is not None and ahead else BATCH
    ids, after = _lock_next(database, operation, size)
    moved = _move(database, operation, ids, actor=actor, via=via)
    now = [one.id for one in moved]
    come: dict[str, Any] = {"after": after, "moved": operation.moved + len(now)}
    asked = sum(one.event == Event.CANCEL_REQUESTED for one in moved)
    if stopping := operation.stopping + asked:
        come["stopping"] = stopping
    event = Event.OP_BATCH
    if canary is not None and ahead:
        event, come["jobs"] = Event.OP_CANARY, [*canary.jobs, *now]
        _record(database, event, operation.id, actor=actor, data=come)
    is_last = after >= operation.upto and not _is_stopped(database, operation.id)
    if is_last:
        event = Event.OP_DONE
        come |= {"skipped": _skipped(operation, come["moved"]), "via": via}
    if event is not Event.OP_CANARY:
        # Which jobs: for whoever asks what became of them, and for the way back.
        _record(database, event, operation.id, actor=actor, data={**come, "jobs": now})
    return find(database, operation.id)


def _judge(database: Database, operation: Operation, *, actor: str) -> Operation:
    canary = operation.canary
    if canary is None or canary.since is None:
        return operation
    trials = trials_of(database, operation.id, canary, planned_at=operation.planned_at)
    verdict = verdict_of(canary, trials)
    if verdict is None or _is_stopped(database, operation.id):
        return find(database, operation.id)
    come = {
        "after": operation.after,
        "moved": operation.moved,
        "jobs": list(canary.jobs),
        "since": canary.since.isoformat(),
        "passed": verdict == "passed",
        "succeeded": sum(trial.fate == "succeeded" for trial in trials),
    }
    _record(database, Event.OP_CANARY, operation.id, actor=actor, data=come)
    if verdict != "passed":
        _end_for(database, operation, verdict, actor=actor)
    return find(database, operation.id)


def _end_for(database: Database, operation: Operation, verdict: Verdict, *, actor: str) -> None:
    told = {"via": "worker"}
    _record(database, Event.OP_STOPPED, operation.id, actor=actor, reason=verdict, data=told)


def _lock_next(database: Database, operation: Operation, size: int) -> tuple[list[int], int]:
    if operation.trail is not None:
        return undo.lock_next(database, operation.trail, seconds=LOOK_S)
    return lock_next(database, operation.place, size, seconds=LOOK_S)


def _move(
    database: Database, operation: Operation, ids: list[int], *, actor: str, via: str
) -> Sequence[Moved]:
    by: By = {"actor": actor, "reason": operation.reason, "via": via, "operation": operation.id}
    if operation.trail is not None:
        return undo.move(database, operation.trail, ids, **by)
    verb = VERBS[operation.verb]
    since = operation.planned_at - LONGEST_TRANSACTION
    rows = run(database, _UNCHANGED, ids=ids, since=since, snapshot=operation.snapshot)
    kept = [row.id for row in rows]
    return verb.move(database, kept, **verb.how, **operation.how, **by)


def _is_stopped(database: Database, operation_id: str) -> bool:
    """Whether somebody has stopped it meanwhile; nobody can after that, up to our commit."""
    run(database, _END, key=key_of(operation_id, end=True))
    return find(database, operation_id).is_over


def _skipped(operation: Operation, moved: int) -> int | None:
    return max(0, operation.counts.total - moved) if operation.counts.whole else None


def _record(
    database: Database, event: Event, operation_id: str, *, actor: str, **told: Any
) -> None:
    control.record(database, event, scope=scope_of(operation_id), actor=actor, **told)
