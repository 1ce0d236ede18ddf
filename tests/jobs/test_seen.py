"""A verb upon an answer: done to the jobs that the question spoke of, as they stood."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.errors import IllegalMove
from queueapp.jobs import transitions
from queueapp.jobs.models import Job
from queueapp.jobs.seen import Seen
from queueapp.jobs.status import Status
from queueapp.jobs.transitions import PersonVerb
from tests.factories import claim_one, make_job, outcome
from tests.jobs.people import PERSON, latest, reread
from tests.locks import until_a_lock_is_awaited

Change = Callable[[Session, int], Any]


def claim(session: Session, job_id: int) -> None:
    claim_one(session, job_id)


def fail_again(session: Session, job_id: int) -> None:
    transitions.requeue(session, [job_id], actor="user:eve")
    transitions.settle(session, [outcome(claim_one(session, job_id), "fail")], actor="worker:w")


def claim_anew(session: Session, job_id: int) -> None:
    values = {"claimed_at": sa.func.clock_timestamp()}
    session.execute(sa.update(Job).where(Job.id == job_id).values(**values))


def postpone(session: Session, job_id: int) -> None:
    transitions.reschedule(session, [job_id], delay_s=900, actor="user:eve")


def raise_priority(session: Session, job_id: int) -> None:
    transitions.reschedule(session, [job_id], priority=9, actor="user:eve")


CASES: list[tuple[PersonVerb, Status, dict[str, Any], Change]] = [
    (transitions.cancel, Status.QUEUED, {}, claim),
    (transitions.cancel, Status.RUNNING, {}, claim_anew),
    (transitions.requeue, Status.FAILED, {}, fail_again),
    (transitions.purge, Status.FAILED, {}, fail_again),
    (transitions.hold, Status.QUEUED, {}, postpone),
    (transitions.unhold, Status.HELD, {}, postpone),
    (transitions.reschedule, Status.QUEUED, {"delay_s": 60}, postpone),
    (transitions.reschedule, Status.HELD, {"delay_s": 60}, raise_priority),
]


@pytest.mark.parametrize(("verb", "status", "how", "change"), CASES)
def test_what_has_moved_on_is_left_alone(
    session: Session, verb: PersonVerb, status: Status, how: dict[str, Any], change: Change
) -> None:
    stays, moves_on = (make_job(session, status) for _ in range(2))
    ids = [stays.id, moves_on.id]
    seen = {job.id: Seen.of(job) for job in (stays, moves_on)}
    change(session, moves_on.id)
    before = latest(session, moves_on.id).id

    moved = verb(session, ids, **PERSON, **how, seen=seen)

    assert [one.id for one in moved] == [stays.id]
    assert latest(session, moves_on.id).id == before
    with pytest.raises(IllegalMove, match=f"job {moves_on.id} (has moved on|is running)"):
        transitions.one(verb, session, moves_on.id, **PERSON, **how, seen=seen)
    now = {moves_on.id: Seen.of(reread(session, moves_on))}
    assert transitions.one(verb, session, moves_on.id, **PERSON, **how, seen=now).id == moves_on.id


def test_what_nothing_was_seen_of_is_left_alone(session: Session) -> None:
    job, other = (make_job(session) for _ in range(2))
    seen = {job.id: Seen.of(job)}

    moved = transitions.cancel(session, [other.id, job.id], **PERSON, seen=seen)

    assert [one.id for one in moved] == [job.id]


def test_the_second_of_two_clicks_is_told_that_the_job_stands_there(session: Session) -> None:
    job = make_job(session)
    how = {**PERSON, "delay_s": 600, "only_if_changed": True, "seen": {job.id: Seen.of(job)}}

    def click(**changed: Any) -> object:
        verb = transitions.reschedule
        return transitions.one_unless_there(verb, session, job.id, **(how | changed))

    assert click() is not None
    assert click() is None
    due = reread(session, job).available_at
    with pytest.raises(IllegalMove, match="has moved on since you were asked: it is queued"):
        click(delay_s=60)
    assert reread(session, job).available_at == due


@pytest.mark.postgresql("row locks")
def test_a_job_that_starts_while_its_row_is_awaited_is_not_asked_to_stop(
    session: Session, engine: sa.Engine
) -> None:
    job = make_job(session)
    session.commit()
    seen, refusals = {job.id: Seen.of(job)}, []

    def cancel() -> None:
        with Session(engine) as mine, pytest.raises(IllegalMove) as refusal:
            transitions.one(transitions.cancel, mine, job.id, **PERSON, seen=seen)
        refusals.append(str(refusal.value))

    with Session(engine) as rival:
        claim_one(rival, job.id)
        waiter = threading.Thread(target=cancel)
        waiter.start()
        until_a_lock_is_awaited(engine)
        rival.commit()
    waiter.join()

    [said] = refusals
    assert "has moved on since you were asked: an attempt at it has begun" in said
    assert reread(session, job).cancel_requested_at is None


@pytest.mark.parametrize("status", Status)
def test_what_was_seen_is_read_as_it_was_written(session: Session, status: Status) -> None:
    seen = Seen.of(make_job(session, status, priority=-7))

    assert Seen.read(str(seen)) == seen


@pytest.mark.parametrize(
    "text",
    ["", "queued", "waiting@2026-01-31T08:00:00+00:00@0", "queued@2026-02-31T08:00:00+00:00@0",
     "queued@2026-01-31T08:00:00@0", "queued@2026-01-31T08:00:00+00:00@٣"],
)  # fmt: skip
def test_what_is_no_mark_is_none(text: str) -> None:
    assert Seen.read(text) is None
