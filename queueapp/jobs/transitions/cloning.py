"""Clone: a new job of what another one was asked to do. Both ledgers lead to the other job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Unpack

from queueapp.errors import JobNotFound
from queueapp.jobs import on_behalf
from queueapp.jobs.autocommit import wake
from queueapp.jobs.database import Database, run
from queueapp.jobs.transitions import enqueue_statements as sql
from queueapp.jobs.transitions.people import By
from queueapp.jobs.transitions.producer import Enqueued, Json
from queueapp.jobs.transitions.single import lock

_ORIGINAL = """
SELECT id, kind, payload::text AS payload, priority, max_attempts, timeout_s, producer, attempts
FROM jobs WHERE id = %(id)s
"""


@dataclass(frozen=True)
class Original:
    """What a clone takes over, as it stands while its row is locked; ``attempts``: claims so far.

    ``payload``: its JSON as it is stored.
    """

    id: int
    kind: str
    payload: Json
    priority: int
    max_attempts: int
    timeout_s: int | None
    producer: str
    attempts: int


def original_of(database: Database, job_id: int) -> Original:
    """Lock a job to the end of the transaction, waiting 2 s at most, and read it.

    Raises JobNotFound and JobBusy.
    """
    if lock(database, job_id) is None:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    row: Any = run(database, _ORIGINAL, id=job_id)[0]
    return Original(**{**row._mapping, "payload": Json(row.payload)})


def clone(
    database: Database, original: Original, *, ceiling: int | None = None, **by: Unpack[By]
) -> Enqueued:
    """Write the clone and both lines of the ledger in one statement; it is due now.

    ``ceiling``: the highest id that it may have, see ``queueapp.jobs.room``. Does not commit.
    """
    given: dict[str, Any] = {"reason": None, "via": None, **vars(original), **by}
    given |= {"original": given.pop("id"), "available_at": None, "delay_s": None}
    given["request"] = json.dumps(on_behalf.told())
    statement = sql.CLONE if ceiling is None else sql.CLONE_BELOW
    if ceiling is not None:
        given["ceiling"] = ceiling
    row: Any = run(database, statement, **given)[0]
    if row.outcome == "full":
        return Enqueued(0, "full")
    wake(database)
    return Enqueued(row.id, "new", None, row)
