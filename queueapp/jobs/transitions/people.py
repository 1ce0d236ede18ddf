"""The verbs of people and producers, from cancel to release, and what undoes some of them.

Each is one statement over any number of ids: it locks the rows it may move in id order (rows that
somebody else has locked are left out), moves them, and writes their ledger lines. ``single`` is the
same for one job, with the wait and the clear refusal that a person expects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Required, TypedDict, Unpack
from uuid import UUID

from queueapp.jobs import on_behalf
from queueapp.jobs.database import Database, run, wake_on_commit
from queueapp.jobs.failure import described
from queueapp.jobs.seen import Seen, parameters_of
from queueapp.jobs.status import Event, HeldFor, Status
from queueapp.jobs.transitions import people_statements as statements


@dataclass(frozen=True)
class Moved:
    """One job that a verb has moved, as the ledger has it; ``to_status`` None: its row is gone."""

    id: int
    event: Event
    from_status: Status
    to_status: Status | None


class By(TypedDict, total=False):
    """Who moves jobs, why, by which surface, and in which operation over many jobs.

    ``seen``: how each of the jobs stood when it was asked about; what stands otherwise is left
    alone.
    """

    actor: Required[str]
    reason: str | None
    via: str | None
    operation: str | None
    seen: Mapping[int, Seen] | None


_NOT_SAID = dict.fromkeys(("reason", "via", "operation"))
_FAILURE = described("Released", "a person took the job from its holder")
_TAKEN = {
    "error_class": _FAILURE.error_class,
    "error_message": _FAILURE.message,
    "fingerprint": _FAILURE.fingerprint,
}


class PersonVerb(Protocol):
    """The shape of every function here: (database, ids, *, actor, reason, via, operation, …)."""

    __name__: str

    def __call__(self, *args: Any, **how: Any) -> list[Moved]:
        """Move those of the ids that allow it."""


def cancel(
    database: Database,
    ids: Sequence[int],
    **by: Unpack[By],
) -> list[Moved]:
    """Cancel waiting jobs for good; ask the handlers of running ones to stop.

    Once asked, a running job can only end as cancelled – or as succeeded, if it was faster.
    """
    return _apply(database, statements.CANCEL, ids, **by)


def requeue(
    database: Database,
    ids: Sequence[int],
    **by: Unpack[By],
) -> list[Moved]:
    """Let failed and cancelled jobs run again now, with all their attempts. Buttons say "retry"."""
    moved = _apply(database, statements.REQUEUE, ids, **by)
    return _wake(database, moved)


def hold(
    database: Database,
    ids: Sequence[int],
    *,
    held_for: HeldFor = "job",
    **by: Unpack[By],
) -> list[Moved]:
    """Park queued jobs: they keep their place. ``held_for`` says what may lift it."""
    return _apply(database, statements.HOLD, ids, **by, held_for=held_for)


def unhold(
    database: Database,
    ids: Sequence[int],
    *,
    held_for: HeldFor | None = None,
    spread_s: float = 0,
    **by: Unpack[By],
) -> list[Moved]:
    """Let held jobs go on. ``spread_s`` > 0 spreads what is due over so many seconds.

    A job that is due later than its place among them keeps its time.
    """
    how = {"held_for": held_for, "spread_s": spread_s}
    return _wake(database, _apply(database, statements.UNHOLD, ids, **by, **how))


def reschedule(
    database: Database,
    ids: Sequence[int],
    *,
    priority: int | None = None,
    available_at: datetime | None = None,
    delay_s: float | None = None,
    spread_s: float = 0,
    only_if_changed: bool = False,
    **by: Unpack[By],
) -> list[Moved]:
    """Move waiting jobs in the line. ``available_at`` wins over ``delay_s`` (0: due now).

    A time that has passed is now: only whoever has been due for longer is ahead. ``spread_s`` > 0
    spreads them over so many seconds from then on; without either of both from now on, and a job
    that is due later than its place among them keeps its time.

    ``only_if_changed`` leaves out those that are there already.
    """
    how = {
        "priority": priority,
        "available_at": available_at,
        "delay_s": delay_s,
        "spread_s": spread_s,
        "only_if_changed": only_if_changed,
    }
    moved = _apply(database, statements.RESCHEDULE, ids, **by, **how)
    return _wake(database, moved)


def run_now(database: Database, ids: Sequence[int], **by: Unpack[By]) -> list[Moved]:
    """Make queued jobs due that are not; their priority stays."""
    return _wake(database, _apply(database, statements.RUN_NOW, ids, **by))


def restore(
    database: Database,
    ids: Sequence[int],
    *,
    statuses: Sequence[str],
    held_for: Sequence[str | None],
    **by: Unpack[By],
) -> list[Moved]:
    """Undo a cancel: each job is again what it was, queued or held, and then what for.

    ``statuses`` and ``held_for`` have a value for each of ``ids``. The rows must be locked.
    """
    how = {"statuses": list(statuses), "held_for": list(held_for)}
    return _wake(database, _apply(database, statements.RESTORE, ids, **by, **how))


def put_back(
    database: Database,
    ids: Sequence[int],
    *,
    priorities: Sequence[int],
    available_at: Sequence[str],
    **by: Unpack[By],
) -> list[Moved]:
    """Undo a reschedule: each job has its old priority and due time again, as the ledger has them.

    ``priorities`` and ``available_at`` have a value for each of ``ids``. The rows must be locked.
    """
    how = {"priorities": list(priorities), "available_at": list(available_at)}
    return _wake(database, _apply(database, statements.PUT_BACK, ids, **by, **how))


def release(
    database: Database,
    ids: Sequence[int],
    *,
    token: UUID,
    **by: Unpack[By],
) -> list[Moved]:
    """Take a running job from the holder of ``token``: it may run twice if the holder is alive.

    The attempt counts. With all attempts used up the job ends as failed.
    """
    moved = _apply(database, statements.RELEASE, ids, **by, **_TAKEN, token=token)
    return _wake(database, moved)


def release_claims(
    database: Database,
    claims: Mapping[int, datetime],
    *,
    holder: str,
    **by: Unpack[By],
) -> list[Moved]:
    """Take jobs from ``holder`` whose claims are these: when each was made, by the job's id.

    What it has claimed since, or somebody else, stays where it is. Else as ``release``.
    """
    how = {"holder": holder, "claimed": list(claims.values())}
    moved = _apply(database, statements.RELEASE_CLAIMS, list(claims), **by, **_TAKEN, **how)
    return _wake(database, moved)


def purge(database: Database, ids: Sequence[int], **by: Unpack[By]) -> list[Moved]:
    """Remove jobs that are over: row, payload, result and error, for good.

    Their history stays in the ledger. Their idempotency keys are free again, as after retention.
    """
    return _apply(database, statements.PURGE, ids, **by)


def _apply(
    database: Database, statement: str, ids: Sequence[int], **parameters: Any
) -> list[Moved]:
    # The lines of an operation tell of its requests; one in each job's would say nothing more.
    request = {} if parameters.get("operation") else on_behalf.told()
    given = {**_NOT_SAID, **parameters, "request": json.dumps(request)}
    given |= parameters_of(given.pop("seen", None), ids)
    rows = run(database, statement, **given, ids=list(ids))
    return [
        Moved(row.id, Event(row.event), Status(row.from_status), _status(row.to_status))
        for row in rows
    ]


def _status(name: str | None) -> Status | None:
    return None if name is None else Status(name)


def _wake(database: Database, moved: list[Moved]) -> list[Moved]:
    if any(job.to_status is Status.QUEUED for job in moved):
        wake_on_commit(database)
    return moved
