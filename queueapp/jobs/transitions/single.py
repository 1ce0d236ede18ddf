"""One job for one person: wait a little for its row, and say clearly why a verb is refused."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import DBAPIError

from queueapp.errors import IllegalMove, JobBusy, JobNotFound
from queueapp.jobs.database import Database, connection_of, run
from queueapp.jobs.status import Status, Verb, sources
from queueapp.jobs.transitions.people import Moved, PersonVerb, cancel, release

LOCK_NOT_AVAILABLE = "55P03"
_PATIENCE = "2s"


def one(verb: PersonVerb, database: Database, job_id: int, **how: Any) -> Moved:
    """Do ``verb`` to one job, waiting at most 2 s for its row.

    Raises JobNotFound, IllegalMove (with the status found) or JobBusy.
    """
    status = _lock(database, job_id)
    if status is None:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    moved = verb(database, [job_id], **how)
    if not moved:
        raise _refusal(verb, job_id, status)
    return moved[0]


def _lock(database: Database, job_id: int) -> Status | None:
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


def _refusal(verb: PersonVerb, job_id: int, status: Status) -> IllegalMove:
    allowed = " or ".join(sources(Verb(verb.__name__)))
    detail = f"job {job_id} is {status}; {verb.__name__} needs one that is {allowed}"
    if verb is cancel and status is Status.RUNNING:
        detail = f"job {job_id} has already been asked to stop"
    if verb is release and status is Status.RUNNING:
        detail = f"job {job_id} has another holder now; look again"
    return IllegalMove(detail, job_id=job_id, job_status=str(status))
