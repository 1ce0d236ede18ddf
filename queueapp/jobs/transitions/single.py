"""One job for one person: wait a little for its row, and say clearly why a verb is refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from queueapp.errors import IllegalMove, JobBusy, JobNotFound
from queueapp.jobs.database import Database, connection_of, run
from queueapp.jobs.status import Status, Verb, sources
from queueapp.jobs.transitions.people import (
    By,
    Moved,
    PersonVerb,
    cancel,
    release,
    requeue,
    run_now,
    unhold,
)

LOCK_NOT_AVAILABLE = "55P03"
_PATIENCE = "2s"
_HOLDER = "SELECT lease_token FROM jobs WHERE id = %(id)s AND claimed_at = %(claimed_at)s"


def one(verb: PersonVerb, database: Database, job_id: int, **how: Any) -> Moved:
    """Do ``verb`` to one job, waiting at most 2 s for its row.

    Raises JobNotFound, IllegalMove (with the status found) or JobBusy.
    """
    status, moved = _attempt(verb, database, job_id, how)
    if moved is None:
        raise _refusal(verb, job_id, status)
    return moved


def one_unless_there(verb: PersonVerb, database: Database, job_id: int, **how: Any) -> Moved | None:
    """The same for a verb that moves a job in the line; None: it is there already."""
    status, moved = _attempt(verb, database, job_id, how)
    if moved is None and status not in _sources(verb):
        raise _refusal(verb, job_id, status)
    return moved


def release_claim(
    database: Database, job_id: int, *, claimed_at: datetime, **by: Unpack[By]
) -> Moved:
    """Take a running job from whoever claimed it at ``claimed_at``.

    That tells the claims of a job apart like their tokens, which are shown to nobody. Raises as
    ``one`` does; IllegalMove also when somebody else has the job by now.
    """
    rows = run(database, _HOLDER, id=job_id, claimed_at=claimed_at)
    token = rows[0].lease_token if rows else UUID(int=0)
    return one(release, database, job_id, token=token, **by)


def _attempt(
    verb: PersonVerb, database: Database, job_id: int, how: dict[str, Any]
) -> tuple[Status, Moved | None]:
    status = lock(database, job_id)
    if status is None:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    moved = verb(database, [job_id], **how)
    return status, moved[0] if moved else None


def _sources(verb: PersonVerb) -> tuple[Status, ...]:
    return (Status.QUEUED,) if verb is run_now else sources(Verb(verb.__name__))


def lock(database: Database, job_id: int) -> Status | None:
    """Lock the row and return its status, None without a row; raises JobBusy after the patience."""
    was = run(database, "SELECT current_setting('lock_timeout') AS value")[0].value
    try:
        with connection_of(database).begin_nested():
            run(database, f"SET LOCAL lock_timeout = '{_PATIENCE}'")
            rows = run(
                database, "SELECT status FROM jobs WHERE id = %(id)s FOR NO KEY UPDATE", id=job_id
            )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        raise JobBusy(
            f"job {job_id} is locked by another session; try again", job_id=job_id
        ) from None
    run(database, "SELECT set_config('lock_timeout', %(was)s, true)", was=was)
    return Status(rows[0].status) if rows else None


def _said(verb: PersonVerb) -> str:
    # People press Retry; the ledger calls it a requeue.
    return "retry" if verb is requeue else verb.__name__.replace("_", " ")


def _refusal(verb: PersonVerb, job_id: int, status: Status) -> IllegalMove:
    allowed, name = " or ".join(_sources(verb)), _said(verb)
    detail = f"job {job_id} is {status}; {name} needs one that is {allowed}"
    if verb is cancel and status is Status.RUNNING:
        detail = f"job {job_id} has already been asked to stop"
    if verb is release and status is Status.RUNNING:
        detail = f"job {job_id} has another holder now; look again"
    if verb is unhold and status is Status.HELD:
        detail = f"job {job_id} is held for its kind, which is on hold: lift that hold instead"
    return IllegalMove(detail, job_id=job_id, job_status=str(status))
