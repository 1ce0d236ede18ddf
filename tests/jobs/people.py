"""What the tests of people's verbs share."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Verb
from queueapp.jobs.transitions import PersonVerb

PERSON: dict[str, Any] = {"actor": "user:ana", "reason": "because", "via": "console"}
VERBS: dict[Verb, PersonVerb] = {
    Verb.CANCEL: transitions.cancel,
    Verb.REQUEUE: transitions.requeue,
    Verb.HOLD: transitions.hold,
    Verb.UNHOLD: transitions.unhold,
    Verb.RESCHEDULE: transitions.reschedule,
    Verb.RELEASE: transitions.release,
    Verb.PURGE: transitions.purge,
}


def latest(session: Session, job_id: int) -> JobEvent:
    own = sa.select(JobEvent).where(JobEvent.job_id == job_id)
    return session.scalars(own.order_by(JobEvent.id.desc())).first() or pytest.fail("no event")


def reread(session: Session, job: Job) -> Job:
    session.refresh(job)
    return job


def how_of(verb: Verb, job: Job) -> dict[str, Any]:
    return {"token": job.lease_token or uuid4()} if verb is Verb.RELEASE else {}
