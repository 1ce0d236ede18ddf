"""What a holder does with its leases: answers are certain, strangers write nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.models import Job
from queueapp.jobs.transitions import Begun, Held, Progress
from tests.factories import HOLDER, make_job, outcome


def claimed(
    session: Session, worker: sa.Connection, *, holder: Holder = HOLDER, prefetch: int = 0
) -> Claim:
    make_job(session)
    session.commit()
    exchange = transitions.exchange(worker, [], holder, slots=1 - prefetch, prefetch=prefetch)
    return exchange.claims[0]


def lease_of(claim: Claim) -> Held:
    return Held(claim.id, claim.token)


def job_of(session: Session, claim: Claim) -> Job:
    session.rollback()
    return session.get_one(Job, claim.id, populate_existing=True)


def expiry(session: Session, claim: Claim) -> datetime:
    found = job_of(session, claim).lease_expires_at
    assert found is not None
    return found


def test_a_renewal_moves_the_deadline_forward(session: Session, worker: sa.Connection) -> None:
    claim = claimed(session, worker)
    before = expiry(session, claim)
    longer = Holder(HOLDER.name, lease_s=600)

    assert transitions.renew(worker, [lease_of(claim)], longer) == {claim.token: "renewed"}

    assert expiry(session, claim) - before > timedelta(seconds=500)


@pytest.mark.postgresql("row locks")
def test_each_lease_gets_its_own_answer(
    session: Session, worker: sa.Connection, engine: sa.Engine
) -> None:
    free, locked, asked, over, gone = (claimed(session, worker) for _ in range(5))
    transitions.cancel(worker, [asked.id], actor="user:ana")
    worker.execute(
        sa.update(Job)
        .where(Job.id == over.id)
        .values(timeout_s=1, started_at=sa.text("now() - interval '2 s'"))
    )
    transitions.settle(worker, [outcome(gone)], actor=HOLDER.name)
    stranger = Held(free.id, uuid4())
    leases = [lease_of(claim) for claim in (free, locked, asked, over, gone)]
    with engine.begin() as locker:
        locker.execute(sa.text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": locked.id})

        answers = transitions.renew(worker, [*reversed(leases), stranger], HOLDER)

    assert answers == {
        free.token: "renewed",
        locked.token: "busy",
        asked.token: "cancel",
        over.token: "timeout",
        gone.token: "lost",
        stranger.token: "lost",
    }


def test_a_lease_never_reaches_past_the_attempts_time_out(
    session: Session, worker: sa.Connection
) -> None:
    claim = claimed(session, worker, holder=Holder(HOLDER.name, lease_s=60, job_timeout_s=90))
    longer = Holder(HOLDER.name, lease_s=600, job_timeout_s=90)

    assert transitions.renew(worker, [lease_of(claim)], longer) == {claim.token: "renewed"}

    job = job_of(session, claim)
    assert job.started_at is not None
    assert expiry(session, claim) - job.started_at == timedelta(seconds=90)


def test_an_attempt_past_its_time_out_is_not_extended(
    session: Session, worker: sa.Connection
) -> None:
    claim = claimed(session, worker)
    late = {"timeout_s": 1, "started_at": sa.text("now() - interval '2 s'")}
    worker.execute(sa.update(Job).values(**late))
    before = expiry(session, claim)

    assert transitions.renew(worker, [lease_of(claim)], HOLDER) == {claim.token: "timeout"}

    assert expiry(session, claim) == before


@pytest.mark.parametrize("timeout_s", [None, 0])
def test_without_a_time_out_a_lease_is_renewed_for_ever(
    session: Session, worker: sa.Connection, timeout_s: int | None
) -> None:
    claim = claimed(session, worker)
    long_ago = {"timeout_s": timeout_s, "started_at": sa.text("now() - interval '9 days'")}
    worker.execute(sa.update(Job).values(**long_ago))

    assert transitions.renew(worker, [lease_of(claim)], HOLDER) == {claim.token: "renewed"}


def test_the_own_time_out_of_a_job_wins_over_the_holders(
    session: Session, worker: sa.Connection
) -> None:
    claim = claimed(session, worker)
    worker.execute(
        sa.update(Job).values(timeout_s=3600, started_at=sa.text("now() - interval '2 s'"))
    )
    strict = Holder(HOLDER.name, lease_s=60, job_timeout_s=1)

    assert transitions.renew(worker, [lease_of(claim)], strict) == {claim.token: "renewed"}


def test_a_prefetched_claim_begins_once(session: Session, worker: sa.Connection) -> None:
    claim = claimed(session, worker, prefetch=1)
    assert job_of(session, claim).started_at is None

    transitions.begin(worker, [Begun(claim.id, claim.token, 5.0)])
    started = job_of(session, claim).started_at
    transitions.begin(worker, [Begun(claim.id, claim.token, 0.0)])

    assert started is not None
    assert job_of(session, claim).started_at == started
    since = "SELECT extract(epoch FROM clock_timestamp() - started_at) FROM jobs"
    assert 5 <= float(session.scalar(sa.text(since)) or 0) < 15


def test_a_stranger_neither_begins_nor_reports_progress(
    session: Session, worker: sa.Connection
) -> None:
    claim = claimed(session, worker, prefetch=1)

    transitions.begin(worker, [Begun(claim.id, uuid4(), 0.0)])
    transitions.write_progress(worker, [Progress(claim.id, uuid4(), 50, "half-way")])

    job = job_of(session, claim)
    assert (job.started_at, job.progress, job.progress_note) == (None, None, None)


def test_progress_stays_with_a_success_and_goes_with_a_retry(
    session: Session, worker: sa.Connection
) -> None:
    done, again = claimed(session, worker), claimed(session, worker)
    reports = [Progress(claim.id, claim.token, 50, "half-way") for claim in (done, again)]
    transitions.write_progress(worker, reports)

    transitions.settle(worker, [outcome(done), outcome(again, "retry")], actor=HOLDER.name)

    assert (job_of(session, done).progress, job_of(session, done).progress_note) == (50, "half-way")
    assert (job_of(session, again).progress, job_of(session, again).progress_note) == (None, None)


@pytest.mark.postgresql("row locks")
def test_progress_leaves_out_a_locked_row_and_writes_the_others(
    session: Session, worker: sa.Connection, engine: sa.Engine
) -> None:
    locked, free = claimed(session, worker), claimed(session, worker)
    reports = [Progress(claim.id, claim.token, 50, None) for claim in (locked, free)]
    with engine.begin() as locker:
        locker.execute(sa.text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": locked.id})

        transitions.write_progress(worker, reports)

    assert (job_of(session, locked).progress, job_of(session, free).progress) == (None, 50)


def test_claims_whose_answer_was_lost_are_found_again_in_order(
    session: Session, worker: sa.Connection
) -> None:
    for priority in (1, 3, 2):
        make_job(session, priority=priority)
    session.commit()
    known, *lost = transitions.exchange(worker, [], HOLDER, slots=3).claims
    claimed(session, worker, holder=Holder("other:2:000000", lease_s=60))

    adopted = transitions.adopt(worker, [known.token], HOLDER)

    assert adopted == lost
    assert [claim.priority for claim in adopted] == [2, 1]


def test_a_lease_that_has_run_out_is_not_adopted(session: Session, worker: sa.Connection) -> None:
    claimed(session, worker)
    worker.execute(sa.update(Job).values(lease_expires_at=sa.text("now() - interval '1 s'")))

    assert transitions.adopt(worker, [], HOLDER) == []


def test_nothing_to_do_is_done_without_an_error(session: Session, worker: sa.Connection) -> None:
    claimed(session, worker)

    assert transitions.renew(worker, [], HOLDER) == {}
    transitions.begin(worker, [])
    transitions.write_progress(worker, [])
