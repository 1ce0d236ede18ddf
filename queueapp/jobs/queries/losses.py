"""The leases that jobs have lost, in all of their lives: a retry begins another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from queueapp.jobs.models import JobEvent
from queueapp.jobs.status import Event

# Lines of the ledger that are looked at.
MOST = 500


@dataclass(frozen=True)
class Loss:
    """Who lost a lease of the job, each once, the latest last, and when that was."""

    job_id: int
    holders: tuple[str, ...]
    last_at: datetime


def losses_of(session: Session, ids: Sequence[int]) -> list[Loss]:
    """Of those of ``ids`` that ever lost a lease, in their order."""
    statement = (
        select(JobEvent.job_id, JobEvent.data, JobEvent.created_at)
        .where(JobEvent.job_id.in_(ids), JobEvent.event == Event.LEASE_EXPIRED)
        .order_by(JobEvent.id)
        .limit(MOST)
    )
    found: dict[int, Loss] = {}
    for job_id, data, at in session.execute(statement):
        before = found[job_id].holders if job_id in found else ()
        holder = data["holder"]
        others = tuple(one for one in before if one != holder)
        found[job_id] = Loss(job_id, (*others, holder), at)
    return [found[job_id] for job_id in ids if job_id in found]
