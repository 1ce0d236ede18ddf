"""Settling: the token decides, a locked row waits alone, and every end is written as it was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.failure import Failure
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event, Status
from tests.factories import HOLDER, make_job, outcome

ME = HOLDER.name
OTHER = Holder("other:2:000000", lease_s=60)


def claimed(session: Session, worker: sa.Connection, count: int = 1, **new: Any) -> list[Claim]:
    for _ in range(count):
        make_job(session, **new)
    session.commit()
    claims = transitions.exchange(worker, [], HOLDER, slots=count).claims
    assert len(claims) == count
    return claims


def job_of(session: Session, claim: Claim) -> Job:
    session.rollback()
    return session.get_one(Job, claim.id, populate_existing=True)


def events_of(session: Session, claim: Claim) -> list[JobEvent]:
    session.rollback()
    own = sa.select(JobEvent).where(JobEvent.job_id == claim.id)
    return list(session.scalars(own.order_by(JobEvent.id)))


def test_a_claim_and_its_success_stand_in_row_and_ledger(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = claimed(session, worker)
    end = outcome(claim, result={"sent": 1}, data={"run_ms": 7})

    exchange = transitions.exchange(worker, [end], HOLDER, slots=0)

    assert exchange.accepted == {claim.token: "succeeded"}
    job = job_of(session, claim)
    assert (job.status, job.result, job.attempts) == (Status.SUCCEEDED, {"sent": 1}, 1)
    assert (job.locked_by, job.lease_token, job.lease_expires_at, job.claimed_at) == (None,) * 4
    events = events_of(session, claim)
    assert [event.event for event in events] == ["enqueued", "claimed", "succeeded"]
    assert [event.attempt for event in events] == [0, 1, 1]
    assert [event.lease_token for event in events] == [None, claim.token, claim.token]
    assert events[2].data == {"run_ms": 7}
    assert events[1].data["wait_ms"] >= 0


@pytest.mark.parametrize("verb", ["succeed", "retry", "fail", "release", "defer", "cancel"])
def test_a_wrong_token_settles_nothing_and_is_recorded(
    session: Session, worker: sa.Connection, verb: Any
) -> None:
    [claim] = claimed(session, worker)
    wrong = outcome(claim, verb)
    wrong = transitions.Outcome(id=claim.id, token=uuid4(), verb=verb, claimed_at=wrong.claimed_at)

    assert transitions.settle(worker, [wrong], actor=ME) == {}
    assert transitions.explain(worker, [wrong], actor=ME) == {wrong.token: "lost"}

    assert job_of(session, claim).lease_token == claim.token
    refused = events_of(session, claim)[-1]
    assert (refused.event, refused.lease_token) == (Event.STALE_WRITE_REJECTED, wrong.token)
    assert (refused.actor, refused.reason, refused.kind) == (ME, verb, "demo.echo")
    assert (refused.from_status, refused.to_status) == (None, None)


def test_the_same_end_sent_twice_is_a_repeat_and_changes_nothing(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = claimed(session, worker)
    end = outcome(claim)
    transitions.settle(worker, [end], actor=ME)
    before = len(events_of(session, claim))

    assert transitions.settle(worker, [end], actor=ME) == {}
    assert transitions.explain(worker, [end], actor=ME) == {claim.token: "succeeded"}
    assert len(events_of(session, claim)) == before


def test_an_end_that_somebody_else_gave_to_the_token_reads_as_lost(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = claimed(session, worker)
    transitions.settle(worker, [outcome(claim, "retry", delay_s=0)], actor="sweeper:2")

    assert transitions.settle(worker, [outcome(claim)], actor=ME) == {}
    assert transitions.explain(worker, [outcome(claim)], actor=ME) == {claim.token: "lost"}
    assert job_of(session, claim).status == Status.QUEUED


def test_a_job_that_is_gone_is_a_lost_one_of_its_kind(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = claimed(session, worker)
    transitions.settle(worker, [outcome(claim)], actor="other")
    transitions.purge(worker, [claim.id], actor="user:ana")

    assert transitions.explain(worker, [outcome(claim)], actor=ME) == {claim.token: "lost"}
    assert events_of(session, claim)[-1].kind == "demo.echo"


@pytest.mark.postgresql("row locks")
def test_a_locked_row_is_busy_and_the_others_go_on(
    session: Session, worker: sa.Connection, engine: sa.Engine
) -> None:
    claims = claimed(session, worker, 10)
    waiting = [make_job(session).id for _ in range(5)]
    session.commit()
    ends = [outcome(claim) for claim in claims]
    with engine.begin() as locker:
        lock = "SELECT FROM jobs WHERE id = :id FOR UPDATE"
        locker.execute(sa.text(lock), {"id": claims[3].id})

        first = transitions.exchange(worker, ends, HOLDER, slots=5)
        missing = [end for end in ends if end.token not in first.accepted]

        assert len(first.accepted) == 9
        assert [claim.id for claim in first.claims] == waiting
        assert transitions.explain(worker, missing, actor=ME) == {claims[3].token: "busy"}
    second = transitions.exchange(worker, missing, HOLDER, slots=0)
    assert second.accepted == {claims[3].token: "succeeded"}


@pytest.mark.postgresql("row locks")
def test_a_row_whose_locker_took_the_lease_is_busy_then_lost(
    session: Session, worker: sa.Connection, engine: sa.Engine
) -> None:
    [claim] = claimed(session, worker)
    with Session(engine) as rival:
        transitions.release(rival, [claim.id], actor="user:ana", token=claim.token)

        assert transitions.settle(worker, [outcome(claim)], actor=ME) == {}
        assert transitions.explain(worker, [outcome(claim)], actor=ME) == {claim.token: "busy"}
        rival.commit()

    assert transitions.settle(worker, [outcome(claim)], actor=ME) == {}
    assert transitions.explain(worker, [outcome(claim)], actor=ME) == {claim.token: "lost"}
    assert job_of(session, claim).status == Status.QUEUED


def test_a_row_that_an_open_insert_refers_to_is_settled_all_the_same(
    session: Session, worker: sa.Connection, engine: sa.Engine
) -> None:
    """An application's foreign key to jobs takes FOR KEY SHARE, which a settle does not mind."""
    [claim] = claimed(session, worker)
    with engine.begin() as referrer:
        referrer.execute(sa.text("SELECT FROM jobs FOR KEY SHARE"))

        assert transitions.settle(worker, [outcome(claim)], actor=ME)


def test_answers_go_by_token_where_one_batch_has_a_job_twice(
    session: Session, worker: sa.Connection
) -> None:
    [late] = claimed(session, worker)
    transitions.settle(worker, [outcome(late, "retry", delay_s=0)], actor="sweeper:2")
    [live] = transitions.exchange(worker, [], HOLDER, slots=1).claims
    assert live.id == late.id
    batch = [outcome(late, "fail"), outcome(live)]

    accepted = transitions.settle(worker, batch, actor=ME)

    assert accepted == {live.token: "succeeded"}
    assert transitions.explain(worker, batch, actor=ME) == {
        late.token: "lost",
        live.token: "succeeded",
    }


def test_one_end_twice_in_a_batch_is_written_once(session: Session, worker: sa.Connection) -> None:
    [claim] = claimed(session, worker)

    transitions.settle(worker, [outcome(claim), outcome(claim)], actor=ME)

    assert [event.event for event in events_of(session, claim)].count("succeeded") == 1


def test_a_retry_waits_from_the_settle_on_and_keeps_the_error(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = claimed(session, worker)
    failure = Failure("ValueError", "no such host", "f" * 16)
    end = outcome(claim, "retry", delay_s=30, failure=failure, data={"traceback": "Traceback …"})

    transitions.settle(worker, [end], actor=ME)

    job, event = job_of(session, claim), events_of(session, claim)[-1]
    assert (job.status, job.attempts, job.handbacks) == (Status.QUEUED, 1, 0)
    assert (job.error_class, job.error_message) == ("ValueError", "no such host")
    assert (job.started_at, job.finished_at, job.progress) == (None, None, None)
    assert job.available_at - event.created_at == pytest.approx(
        timedelta(seconds=30), abs=timedelta(seconds=5)
    )
    assert event.data["traceback"] == "Traceback …"
    assert event.data["error_fingerprint"] == "f" * 16


@pytest.mark.parametrize("verb", ["release", "defer"])
def test_a_handback_returns_the_attempt_the_place_and_the_last_error(
    session: Session, worker: sa.Connection, verb: Any
) -> None:
    [claim] = claimed(session, worker)
    transitions.settle(worker, [outcome(claim, "retry", delay_s=0)], actor=ME)
    [again] = transitions.exchange(worker, [], HOLDER, slots=1).claims
    place = job_of(session, claim).available_at

    transitions.settle(worker, [outcome(again, verb, reason="shutdown")], actor=ME)

    job = job_of(session, claim)
    assert (again.attempt, job.attempts, job.handbacks) == (2, 1, 1)
    assert job.available_at == place
    assert job.error_class == "ValueError"
    assert events_of(session, claim)[-1].attempt == 2


def test_a_success_after_a_failure_leaves_no_error_behind(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = claimed(session, worker)
    transitions.settle(worker, [outcome(claim, "retry", delay_s=0)], actor=ME)
    [again] = transitions.exchange(worker, [], HOLDER, slots=1).claims

    transitions.settle(worker, [outcome(again)], actor=ME)

    job = job_of(session, claim)
    assert (job.error_class, job.error_message, job.error_fingerprint) == (None, None, None)


@pytest.mark.parametrize("verb", ["retry", "fail", "release", "defer", "cancel", "succeed"])
def test_a_cancel_request_is_judged_on_the_row_not_by_the_worker(
    session: Session, worker: sa.Connection, verb: Any
) -> None:
    [claim] = claimed(session, worker)
    transitions.cancel(worker, [claim.id], actor="user:ana", reason="wrong customer")

    transitions.settle(worker, [outcome(claim, verb, delay_s=0)], actor=ME)

    job, event = job_of(session, claim), events_of(session, claim)[-1]
    end = Status.SUCCEEDED if verb == "succeed" else Status.CANCELLED
    assert (job.status, event.to_status, event.attempt) == (end, end, 1)
    assert (job.attempts, job.handbacks) == (1, 0)
    assert job.cancel_requested_at is not None
    assert event.reason == ("finished_before_cancel" if verb == "succeed" else None)
    assert transitions.exchange(worker, [], HOLDER, slots=1).claims == []


def test_a_late_result_on_an_expired_but_unswept_lease_is_accepted(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = claimed(session, worker)
    worker.execute(sa.update(Job).values(lease_expires_at=sa.text("now() - interval '1 h'")))

    assert transitions.settle(worker, [outcome(claim)], actor=ME) == {claim.token: "succeeded"}
    assert transitions.expire(session, actor="sweeper:2", backoff=Backoff()) == []


def test_a_handler_that_never_reported_its_start_has_one_in_the_end(
    session: Session, worker: sa.Connection
) -> None:
    make_job(session)
    session.commit()
    [claim] = transitions.exchange(worker, [], HOLDER, slots=0, prefetch=1).claims
    assert (claim.started, job_of(session, claim).started_at) == (False, None)

    transitions.settle(worker, [outcome(claim)], actor=ME)

    job = job_of(session, claim)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.finished_at - job.started_at == pytest.approx(
        timedelta(seconds=0.01), abs=timedelta(seconds=0.001)
    )


def test_nothing_to_settle_and_no_room_do_nothing(session: Session, worker: sa.Connection) -> None:
    make_job(session)
    session.commit()
    before = session.scalar(sa.select(sa.func.count()).select_from(JobEvent))

    assert transitions.settle(worker, [], actor=ME) == {}
    assert transitions.explain(worker, [], actor=ME) == {}
    assert transitions.exchange(worker, [], HOLDER, slots=0) == transitions.Exchange({}, [])

    session.rollback()
    assert session.scalar(sa.select(sa.func.count()).select_from(JobEvent)) == before
