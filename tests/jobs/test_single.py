"""One job for one person: a short wait for its row, and a refusal that says why."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.errors import IllegalMove, JobBusy, JobNotFound
from queueapp.jobs import transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event, Status, Verb, sources
from tests.factories import make_job
from tests.jobs.people import PERSON, VERBS, how_of, reread
from tests.locks import until_a_lock_is_awaited


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("status", Status)
def test_one_moves_the_job_or_refuses_with_the_status_it_found(
    session: Session, verb: Verb, status: Status
) -> None:
    job = make_job(session, status)
    how = PERSON | how_of(verb, job)

    if status in sources(verb):
        moved = transitions.one(VERBS[verb], session, job.id, **how)
        assert (moved.id, moved.from_status) == (job.id, status)
        # None of a row that is gone.
        now = session.scalar(sa.select(Job.status).where(Job.id == job.id))
        assert moved.to_status == now
        return
    said = "retry" if verb is Verb.REQUEUE else verb
    with pytest.raises(IllegalMove, match=f"job {job.id} is {status}; {said} needs one") as refusal:
        transitions.one(VERBS[verb], session, job.id, **how)
    assert refusal.value.context == {"job_id": job.id, "job_status": status}
    assert reread(session, job).status == status


def test_one_says_that_a_running_job_has_been_asked_already(session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    transitions.one(transitions.cancel, session, job.id, **PERSON)

    with pytest.raises(IllegalMove, match="already been asked to stop"):
        transitions.one(transitions.cancel, session, job.id, **PERSON)


def test_one_refuses_to_release_from_a_holder_that_was_not_on_the_page(session: Session) -> None:
    job = make_job(session, Status.RUNNING)

    with pytest.raises(IllegalMove, match="another holder"):
        transitions.one(transitions.release, session, job.id, **PERSON, token=uuid4())
    assert reread(session, job).status == Status.RUNNING


@pytest.mark.parametrize("job_id", [0, -1, 999_999, 2**63 - 1, 2**63, 10**30])
def test_one_says_that_there_is_no_such_job(session: Session, job_id: int) -> None:
    with pytest.raises(JobNotFound, match=f"no job {job_id}"):
        transitions.one(transitions.cancel, session, job_id, **PERSON)


@pytest.mark.postgresql("row locks")
def test_one_gives_up_on_a_locked_row_and_leaves_the_transaction_usable(
    session: Session, engine: sa.Engine
) -> None:
    job = make_job(session)
    session.commit()
    session.execute(sa.text("SET LOCAL lock_timeout = '7s'"))
    with engine.begin() as locker:
        locker.execute(sa.text("SELECT FROM jobs FOR NO KEY UPDATE"))

        with pytest.raises(JobBusy, match=f"job {job.id} is locked"):
            transitions.one(transitions.cancel, session, job.id, **PERSON)

        assert session.scalar(sa.text("SHOW lock_timeout")) == "7s"
    assert transitions.one(transitions.cancel, session, job.id, **PERSON).id == job.id
    assert session.scalar(sa.text("SHOW lock_timeout")) == "7s"


@pytest.mark.postgresql("row locks")
def test_one_waits_for_a_short_lock_and_judges_what_it_then_finds(
    session: Session, engine: sa.Engine
) -> None:
    job = make_job(session)
    session.commit()
    refusals: list[IllegalMove] = []

    def cancel() -> None:
        with Session(engine) as mine, pytest.raises(IllegalMove) as refusal:
            transitions.one(transitions.cancel, mine, job.id, **PERSON)
        refusals.append(refusal.value)

    with Session(engine) as rival:
        transitions.one(transitions.cancel, rival, job.id, actor="user:eve")
        waiter = threading.Thread(target=cancel)
        waiter.start()
        until_a_lock_is_awaited(engine)
        rival.commit()
    waiter.join()

    assert [refusal.context["job_status"] for refusal in refusals] == [Status.CANCELLED]
    cancels = sa.select(sa.func.count()).where(JobEvent.event == Event.CANCELLED)
    assert session.scalar(cancels) == 1
