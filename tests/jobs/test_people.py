"""The verbs of people over many jobs: nobody waits, and what each event carries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import queries, transitions
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status, Verb, sources
from tests.factories import make_job, token_of
from tests.jobs.people import PERSON, VERBS, how_of, latest, reread

LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.postgresql("row locks")
@pytest.mark.parametrize("verb", VERBS)
def test_many_leave_out_a_locked_row_and_do_not_wait(
    session: Session, engine: sa.Engine, verb: Verb
) -> None:
    status = sources(verb)[0]
    jobs = [make_job(session, status) for _ in range(3)]
    how = PERSON | how_of(verb, jobs[1])
    session.commit()
    ids = [job.id for job in jobs]
    wanted = [ids[1]] if verb is Verb.RELEASE else [ids[0], ids[1], ids[2]]
    locked = ids[2] if verb is not Verb.RELEASE else ids[1]
    with engine.begin() as locker:
        locker.execute(sa.text("SELECT FROM jobs WHERE id = :id FOR NO KEY UPDATE"), {"id": locked})

        moved = VERBS[verb](session, ids, **how)

    assert [job.id for job in moved] == [job_id for job_id in wanted if job_id != locked]


@pytest.mark.parametrize("verb", VERBS)
def test_no_ids_do_nothing(session: Session, verb: Verb) -> None:
    make_job(session, sources(verb)[0])

    assert (
        VERBS[verb](session, [], **PERSON, **({"token": uuid4()} if verb == "release" else {}))
        == []
    )


def test_ids_may_repeat_and_name_nobody(session: Session) -> None:
    job = make_job(session)

    moved = transitions.cancel(session, [job.id, 10**9, job.id], **PERSON)

    assert [m.id for m in moved] == [job.id]


def test_a_requeue_forgets_the_attempts_and_remembers_them_in_the_event(session: Session) -> None:
    job = make_job(session, Status.FAILED, handbacks=2)
    fingerprint, before = job.error_fingerprint, job.available_at

    transitions.requeue(session, [job.id], **PERSON)

    reread(session, job)
    assert (job.attempts, job.handbacks, job.finished_at, job.result) == (0, 0, None, None)
    assert job.available_at > before
    assert job.error_fingerprint == fingerprint
    data = latest(session, job.id).data
    assert (data["attempts"], data["was"]["attempts"], data["via"]) == (0, 1, "console")
    assert (data["handbacks"], data["was"]["handbacks"]) == (0, 2)
    assert datetime.fromisoformat(data["available_at"]) == job.available_at


def test_a_requeue_of_a_cancelled_job_clears_the_request(session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    transitions.cancel(session, [job.id], **PERSON)
    transitions.release(session, [job.id], **PERSON, token=token_of(job))
    assert reread(session, job).status == Status.CANCELLED

    transitions.requeue(session, [job.id], **PERSON)

    assert reread(session, job).cancel_requested_at is None
    data = latest(session, job.id).data
    assert data["cancel_requested_at"] is None
    assert data["was"]["cancel_requested_at"] is not None


def test_a_reschedule_carries_old_and_new(session: Session) -> None:
    job = make_job(session, priority=3, available_at=LATER)

    transitions.reschedule(
        session, [job.id], **PERSON, priority=-4, available_at=LATER + timedelta(days=1)
    )

    reread(session, job)
    assert (job.priority, job.available_at) == (-4, LATER + timedelta(days=1))
    data = latest(session, job.id).data
    assert (data["priority"], data["was"]["priority"]) == (-4, 3)
    assert datetime.fromisoformat(data["was"]["available_at"]) == LATER


def test_a_reschedule_changes_only_what_was_asked(session: Session) -> None:
    job = make_job(session, priority=3, available_at=LATER)

    transitions.reschedule(session, [job.id], **PERSON, priority=9)
    assert (reread(session, job).priority, job.available_at) == (9, LATER)

    transitions.reschedule(session, [job.id], **PERSON, delay_s=0)
    assert reread(session, job).priority == 9
    assert job.available_at < datetime.now(UTC) + timedelta(minutes=1)


def test_a_reschedule_may_be_spread_in_the_order_of_the_ids(session: Session) -> None:
    ids = [make_job(session).id for _ in range(5)]
    later = make_job(session, available_at=LATER)

    def due_after(start: datetime) -> list[int]:
        session.expire_all()
        found = session.scalars(sa.select(Job.available_at).order_by(Job.id)).all()
        return [round((at - start).total_seconds()) for at in found]

    now = queries.database_now(session)
    every, how = [*ids, later.id], {"only_if_changed": True, **PERSON}
    moved = transitions.reschedule(session, every, spread_s=100, **how)

    # From now on; what is due later than that keeps its time.
    assert [one.id for one in moved] == ids
    assert due_after(now)[:5] == pytest.approx([0, 20, 40, 60, 80], abs=3)
    assert due_after(LATER)[5] == 0

    # From a moment on, whatever they were due.
    transitions.reschedule(session, every, spread_s=60, available_at=LATER, **how)
    assert due_after(LATER) == [0, 10, 20, 30, 40, 50]
    transitions.reschedule(session, every, spread_s=60, delay_s=600, **how)
    assert due_after(now) == pytest.approx([600, 610, 620, 630, 640, 650], abs=5)


def test_unhold_lifts_only_what_was_held_for_the_same(session: Session) -> None:
    for_kind, for_itself = make_job(session), make_job(session)
    transitions.hold(session, [for_kind.id], **PERSON, held_for="kind")
    transitions.hold(session, [for_itself.id], **PERSON)
    both = [for_kind.id, for_itself.id]

    lifted = transitions.unhold(session, both, **PERSON, held_for="kind")

    assert [moved.id for moved in lifted] == [for_kind.id]
    assert reread(session, for_itself).held_for == "job"


def test_unhold_may_spread_the_due_times_in_the_order_of_the_ids(session: Session) -> None:
    ids = [make_job(session, Status.HELD).id for _ in range(5)]

    transitions.unhold(session, ids, **PERSON, spread_s=100)

    due = list(session.scalars(sa.select(Job.available_at).order_by(Job.id)))
    gaps = [(later - sooner).total_seconds() for sooner, later in pairwise(due)]
    assert gaps == pytest.approx([20, 20, 20, 20], abs=1)


def test_unhold_never_brings_a_later_due_time_forward(session: Session) -> None:
    job = make_job(session, Status.HELD, available_at=LATER)

    transitions.unhold(session, [job.id], **PERSON, spread_s=100)

    assert reread(session, job).available_at == LATER


def test_hold_keeps_the_place_in_the_line(session: Session) -> None:
    job = make_job(session, priority=3, available_at=LATER)
    place = (job.priority, job.available_at, job.created_at)

    transitions.hold(session, [job.id], **PERSON)
    transitions.unhold(session, [job.id], **PERSON)

    assert (reread(session, job).priority, job.available_at, job.created_at) == place


def test_a_release_by_a_person_costs_the_attempt_and_clears_the_holder(session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    token: UUID = token_of(job)

    transitions.release(session, [job.id], **PERSON, token=token)

    reread(session, job)
    assert (job.status, job.attempts, job.handbacks) == (Status.QUEUED, 1, 0)
    assert (job.locked_by, job.started_at, job.progress) == (None, None, None)
    assert job.error_class == "Released"
    assert latest(session, job.id).data["released_token"] == str(token)


@pytest.mark.parametrize(
    ("asked", "end", "cause"),
    [(False, Status.FAILED, "released_on_last_attempt"), (True, Status.CANCELLED, None)],
)
def test_a_release_on_the_last_attempt_ends_the_job(
    session: Session, asked: bool, end: Status, cause: str | None
) -> None:
    job = make_job(session, Status.RUNNING, max_attempts=1)
    if asked:
        transitions.cancel(session, [job.id], **PERSON)

    [moved] = transitions.release(session, [job.id], **PERSON, token=token_of(job))

    assert moved.to_status is end
    assert reread(session, job).finished_at is not None
    assert latest(session, job.id).data.get("cause") == cause


def test_a_release_without_a_word_gives_its_own_reason(session: Session) -> None:
    job = make_job(session, Status.RUNNING, max_attempts=1)

    transitions.release(session, [job.id], actor="user:ana", token=token_of(job))

    assert latest(session, job.id).reason == "released_on_last_attempt"
