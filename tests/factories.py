"""Rows for tests: ``make_job`` fills what a status needs and writes the ledger that leads to it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.failure import described
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from queueapp.jobs.transitions import NewJob, Outcome

HOLDER = Holder("test:1:000000", lease_s=60)


def make_job(
    session: Session, status: Status = Status.QUEUED, *, producer: str = "app", **fields: Any
) -> Job:
    """Enqueue a job and take it to ``status`` through the real verbs; not committed.

    ``fields`` of ``NewJob`` go into the enqueue, all others are then written to the row as they
    are (which the ledger does not know: fine for what only reads rows).
    """
    new = {name: fields.pop(name) for name in tuple(fields) if name in NewJob.__annotations__}
    new = {"kind": "demo.echo", "payload": {"message": "hello"}, **new}
    [made] = transitions.enqueue(
        session, [NewJob(**new)], producer=producer, actor="app", via="python"
    )
    _take_to(session, made.id, status)
    if fields:
        session.execute(sa.update(Job).where(Job.id == made.id).values(**fields))
    session.expire_all()
    return session.get_one(Job, made.id)


def claim_one(session: Session, job_id: int, holder: Holder = HOLDER) -> Claim:
    """Claim exactly this job, whatever else is due: it jumps the line, then gets its place back."""
    place = session.execute(sa.select(Job.priority, Job.available_at).where(Job.id == job_id)).one()
    this = sa.update(Job).where(Job.id == job_id)
    session.execute(this.values(priority=32767, available_at=sa.text("now() - interval '1 s'")))
    [claim] = transitions.exchange(session, [], holder, slots=1).claims
    assert claim.id == job_id
    session.execute(this.values(priority=place.priority, available_at=place.available_at))
    return claim


def outcome(claim: Claim, verb: Any = "succeed", **fields: Any) -> Outcome:
    """An outcome of ``claim``, with a failure where the verb wants one."""
    if verb in ("retry", "fail"):
        fields.setdefault("failure", described("ValueError", "no such thing"))
    return Outcome(
        id=claim.id, token=claim.token, verb=verb, claimed_at=claim.claimed_at, ran_s=0.01, **fields
    )


def _take_to(session: Session, job_id: int, status: Status) -> None:
    if status is Status.HELD:
        transitions.hold(session, [job_id], actor="user:ana", reason="test")
    elif status is Status.CANCELLED:
        transitions.cancel(session, [job_id], actor="user:ana", reason="test")
    elif status is not Status.QUEUED:
        claim = claim_one(session, job_id)
        if status is not Status.RUNNING:
            verb = "succeed" if status is Status.SUCCEEDED else "fail"
            transitions.settle(session, [outcome(claim, verb)], actor=HOLDER.name)


def token_of(job: Job) -> UUID:
    """The lease token of a running job."""
    assert job.lease_token is not None
    return job.lease_token
