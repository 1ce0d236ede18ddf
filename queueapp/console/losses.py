"""Jobs that workers have vanished with, before somebody lets them run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from queueapp.console import banner
from queueapp.jobs.models import Job
from queueapp.jobs.queries.losses import losses_of
from queueapp.jobs.verdict.killer import LEAST_KILLED, vanished

# Jobs whose whole history is looked at.
MOST_JOBS = 20


@dataclass(frozen=True)
class Danger:
    """How many workers vanished while the job was running, and when the last one did."""

    job_id: int
    workers: int
    last_at: datetime


def dangers_of(session: Session, jobs: Sequence[Job]) -> list[Danger]:
    """Which of ``jobs`` may take a worker with it once more; of many, those that were lost last."""
    facts = banner.facts()
    if facts is None or facts.signs is None:
        return []
    lost = [job.id for job in jobs if len(jobs) == 1 or job.error_class == "LeaseLost"]
    found = []
    for one in losses_of(session, lost[:MOST_JOBS]):
        gone = vanished(facts.signs, one.holders, facts.now)
        if len(gone) >= LEAST_KILLED:
            found.append(Danger(one.job_id, len(gone), one.last_at))
    return found
