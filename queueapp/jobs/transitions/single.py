"""One job for one person: wait a little for its row, and say clearly why a verb is refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from queueapp.errors import IllegalMove, JobBusy, JobNotFound
from queueapp.jobs.database import Database, connection_of, run
from queueapp.jobs.seen import Seen
from queueapp.jobs.status import FINAL, Status, Verb, sources
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
_LOCK = """
SELECT status, priority, available_at, claimed_at, finished_at FROM jobs
WHERE id = %(id)s FOR NO KEY UPDATE
"""


def one(verb: PersonVerb, database: Database, job_id: int, **how: Any) -> Moved:
    """Do ``verb`` to one job, waiting at most 2 s for its row.

    Raises JobNotFound, IllegalMove (with the status found; also where the job does not stand as it
    was ``seen``) or JobBusy.
    """
    found, moved = _attempt(verb, database, job_id, how)
    if moved is None:
        raise _refusal(verb, job_id, found, how)
    return moved


def one_unless_there(verb: PersonVerb, database: Database, job_id: int, **how: Any) -> Moved | None:
    """The same for a verb that moves a job in the line; None: it is there already."""
    found, moved = _attempt(verb, database, job_id, how)
    if moved is None and (
        found.status not in _sources(verb) or _would_move(verb, database, job_id, found, how)
    ):
        raise _refusal(verb, job_id, found, how)
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
) -> tuple[Seen, Moved | None]:
    found = lock(database, job_id)
    if found is None:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    moved = verb(database, [job_id], **how)
    return found, moved[0] if moved else None


def _would_move(
    verb: PersonVerb, database: Database, job_id: int, found: Seen, how: dict[str, Any]
) -> bool:
    """Whether the job is not there yet, but is not to be moved, for it has moved on."""
    if not _has_moved_on(job_id, found, how):
        return False
    with connection_of(database).begin_nested() as trial:
        moved = verb(database, [job_id], **{**how, "seen": None})
        trial.rollback()
    return bool(moved)


def _has_moved_on(job_id: int, found: Seen, how: dict[str, Any]) -> bool:
    seen = how.get("seen")
    return seen is not None and seen.get(job_id) != found


def _sources(verb: PersonVerb) -> tuple[Status, ...]:
    return (Status.QUEUED,) if verb is run_now else sources(Verb(verb.__name__))


def lock(database: Database, job_id: int) -> Seen | None:
    """Lock the row; how it stands, None without a row. Raises JobBusy after the patience."""
    was = run(database, "SELECT current_setting('lock_timeout') AS value")[0].value
    try:
        with connection_of(database).begin_nested():
            run(database, f"SET LOCAL lock_timeout = '{_PATIENCE}'")
            rows = run(database, _LOCK, id=job_id)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        raise JobBusy(
            f"job {job_id} is locked by another session; try again", job_id=job_id
        ) from None
    run(database, "SELECT set_config('lock_timeout', %(was)s, true)", was=was)
    return Seen.of(rows[0]) if rows else None


def _said(verb: PersonVerb) -> str:
    # People press Retry; the ledger calls it a requeue.
    return "retry" if verb is requeue else verb.__name__.replace("_", " ")


def _refusal(verb: PersonVerb, job_id: int, found: Seen, how: dict[str, Any]) -> IllegalMove:
    status, allowed, name = found.status, " or ".join(_sources(verb)), _said(verb)
    detail = f"job {job_id} is {status}; {name} needs one that is {allowed}"
    if verb is cancel and status is Status.RUNNING:
        detail = f"job {job_id} has already been asked to stop"
    if verb is release and status is Status.RUNNING:
        detail = f"job {job_id} has another holder now; look again"
    if verb is unhold and status is Status.HELD:
        detail = f"job {job_id} is held for its kind, which is on hold: lift that hold instead"
    if status in _sources(verb) and _has_moved_on(job_id, found, how):
        since = _since(status, (how.get("seen") or {}).get(job_id))
        detail = f"job {job_id} has moved on since you were asked: {since}. Look again"
    return IllegalMove(detail, job_id=job_id, job_status=str(status))


def _since(status: Status, seen: Seen | None) -> str:
    """What has become of a job that stands otherwise than it was ``seen``."""
    if status is Status.RUNNING:
        return "an attempt at it has begun, and runs"
    if status in FINAL:
        return f"it has run again, and is {status} anew"
    if seen and seen.status is not status:
        return f"it is {status} now"
    return f"it is {status}, and waits in another place of the line"
