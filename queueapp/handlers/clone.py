"""Clone a job inside the caller's transaction, if its handler would still take it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Unpack

from queueapp.errors import InvalidJob, UnknownKind
from queueapp.handlers.enqueue import Enqueued, check
from queueapp.handlers.request import EnqueueRequest
from queueapp.jobs import transitions
from queueapp.jobs.database import Database
from queueapp.jobs.transitions import By, Original


def clone(
    database: Database,
    job_id: int,
    *,
    ceiling: int | None = None,
    unless: Callable[[], None] = lambda: None,
    **by: Unpack[By],
) -> Enqueued:
    """A new job of what the job ``job_id`` was asked to do, which is locked to the transaction's
    end: what is cloned is what stands. The answer has the whole row.

    ``unless`` is asked while it is locked, and may raise. ``ceiling``: the highest id that the new
    one may have. Raises JobNotFound and JobBusy; UnknownKind and InvalidJob where the kind or the
    payload fits no more.
    """
    original = transitions.original_of(database, job_id)
    unless()
    _refuse_unfit(original)
    made = transitions.clone(database, original, ceiling=ceiling, **by)
    return Enqueued(made.id, made.outcome, job=made.row)


def _refuse_unfit(original: Original) -> None:
    try:
        check(EnqueueRequest(kind=original.kind, payload=json.loads(original.payload)))
    except (UnknownKind, InvalidJob) as error:
        said = f"nothing was cloned, a new job like {original.id} would be refused: {error.message}"
        raise type(error)(said, **error.context) from None
