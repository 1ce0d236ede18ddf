"""What is said of a job that is not there any more, as far as the ledger knows."""

from __future__ import annotations

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from queueapp.console import preferences
from queueapp.console.filters import reason_words, stamp
from queueapp.errors import JobNotFound
from queueapp.jobs import queries


class JobPurged(JobNotFound):
    """There was such a job: it was purged."""

    title = "The job was purged"


def as_purged(database: Session | Connection, error: JobNotFound) -> JobNotFound:
    """The same refusal; where the ledger knows of the purge: by whom, when and why."""
    job_id = error.context.get("job_id")
    line = queries.purge_of(database, job_id) if isinstance(job_id, int) else None
    if line is None:
        return error
    at = stamp(line.created_at, zone=preferences.present().tz)
    why = f" ({reason_words(line.reason)[:300]})" if line.reason else ""
    return JobPurged(
        f"job {job_id} was {line.from_status} when {line.actor} purged it, {at}{why}",
        job_id=job_id,
    )
