"""Expiring: what was lost with its holder comes back once, by the rules of a failed attempt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.backoff import LOST_UNSTARTED_LIMIT, Backoff
from queueapp.jobs.claim import Claim
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Reason, Status
from queueapp.jobs.transitions import Expired
from tests.factories import HOLDER, make_job, outcome

BACKOFF = Backoff(base_s=0)
PAST = sa.text("now() - interval '1 hour'")


def lost(
    session: Session, worker: sa.Connection, count: int = 1, *, started: bool = True, **new: Any
) -> list[Claim]:
    """Claims whose leases ran out an hour ago."""
    for _ in range(count):
        make_job(session, **new)
    session.commit()
    return lose_again(worker, count, started=started)


def lose_again(worker: sa.Connection, count: int = 1, *, started: bool = True) -> list[Claim]:
    slots, prefetch = (count, 0) if started else (0, count)
    claims = transitions.exchange(worker, [], HOLDER, slots=slots, prefetch=prefetch).claims
    running = sa.update(Job).where(Job.status == Status.RUNNING)
    worker.execute(running.values(lease_expires_at=PAST))
    return claims


def sweep(session: Session, **how: Any) -> list[Expired]:
    expired = transitions.expire(session, actor="sweeper:2", backoff=BACKOFF, **how)
    session.commit()
    return expired


def job_of(session: Session, claim: Claim) -> Job:
    session.rollback()
    return session.get_one(Job, claim.id, populate_existing=True)


def events_of(session: Session, claim: Claim) -> list[JobEvent]:
    own = sa.select(JobEvent).where(JobEvent.job_id == claim.id)
    return list(session.scalars(own.order_by(JobEvent.id)))


def test_a_lost_lease_is_named_and_its_job_comes_back(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = lost(session, worker)

    [expired] = sweep(session)

    assert (expired.id, expired.holder, expired.status) == (claim.id, HOLDER.name, "queued")
    job = job_of(session, claim)
    assert (job.status, job.attempts, job.error_class) == (Status.QUEUED, 1, "LeaseLost")
    *_, first, second = events_of(session, claim)
    assert [first.event, second.event] == ["lease_expired", "retry_scheduled"]
    assert first.data["holder"] == second.data["holder"] == HOLDER.name
    ended = datetime.fromisoformat(first.data["lease_expires_at"])
    assert timedelta(minutes=59) < first.created_at - ended < timedelta(minutes=61)
    assert {first.lease_token, second.lease_token} == {claim.token}
    assert (second.reason, second.data["error_class"]) == ("lease_lost", "LeaseLost")
    assert second.data["error_message"] == f"the lease of {HOLDER.name} ran out"
    assert {first.actor, second.actor} == {"sweeper:2"}


def test_a_lease_that_still_holds_is_left_alone(session: Session, worker: sa.Connection) -> None:
    make_job(session)
    session.commit()
    transitions.exchange(worker, [], HOLDER, slots=1)

    assert sweep(session) == []


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_job_that_kills_its_holders_ends_after_exactly_its_attempts(
    session: Session, worker: sa.Connection, most: int
) -> None:
    claims = lost(session, worker, max_attempts=most)
    while sweep(session)[0].status == "queued":
        claims += lose_again(worker)

    job = job_of(session, claims[0])
    assert [claim.attempt for claim in claims] == list(range(1, most + 1))
    assert (job.status, job.attempts, job.error_class) == (Status.FAILED, most, "LeaseLost")
    assert events_of(session, claims[0])[-1].reason == "attempts_used_up"
    assert lose_again(worker) == []


def test_an_attempt_past_its_time_out_is_no_lost_lease(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = lost(session, worker, timeout_s=60)
    worker.execute(sa.update(Job).values(started_at=PAST))

    [expired] = sweep(session)

    assert expired.timed_out
    assert job_of(session, claim).error_class == "JobTimeout"
    assert [event.event for event in events_of(session, claim)[2:]] == ["retry_scheduled"]
    assert events_of(session, claim)[-1].reason == "timed_out"


def test_the_time_out_of_the_settings_counts_for_jobs_without_one(
    session: Session, worker: sa.Connection
) -> None:
    lost(session, worker, count=1)
    lost(session, worker, count=1, timeout_s=0)
    worker.execute(sa.update(Job).values(started_at=PAST))

    assert [expired.timed_out for expired in sweep(session, job_timeout_s=60)] == [True, False]


def test_a_lease_lost_before_its_start_gives_the_attempt_back_three_times(
    session: Session, worker: sa.Connection
) -> None:
    claims = lost(session, worker, started=False, max_attempts=2)
    for handbacks in range(1, LOST_UNSTARTED_LIMIT + 1):
        sweep(session)
        job = job_of(session, claims[0])
        assert (job.status, job.attempts, job.handbacks) == (Status.QUEUED, 0, handbacks)
        claims += lose_again(worker, started=False)

    sweep(session)

    assert (job_of(session, claims[0]).attempts, job_of(session, claims[0]).handbacks) == (1, 3)
    assert [claim.attempt for claim in claims] == [1, 1, 1, 1]
    assert [
        event.reason for event in events_of(session, claims[0]) if event.event == "released"
    ] == ["lease_lost_before_start"] * 3


def test_giving_back_what_only_waited_uses_up_nothing(
    session: Session, worker: sa.Connection
) -> None:
    make_job(session, max_attempts=1)
    session.commit()
    for _ in range(LOST_UNSTARTED_LIMIT):
        [claim] = transitions.exchange(worker, [], HOLDER, slots=0, prefetch=1).claims
        unused = outcome(claim, "release", reason=Reason.PREFETCH_UNUSED)
        transitions.settle(worker, [unused], actor=HOLDER.name)
        assert (job_of(session, claim).attempts, job_of(session, claim).handbacks) == (0, 0)
    [claim] = lose_again(worker, started=False)

    [expired] = sweep(session)

    assert expired.status == "queued"
    assert (job_of(session, claim).attempts, job_of(session, claim).handbacks) == (0, 1)
    assert events_of(session, claim)[-1].reason == "lease_lost_before_start"


@pytest.mark.parametrize("started", [True, False])
def test_a_cancel_request_ends_a_lost_job(
    session: Session, worker: sa.Connection, started: bool
) -> None:
    [claim] = lost(session, worker, started=started)
    transitions.cancel(worker, [claim.id], actor="user:ana")

    assert [expired.status for expired in sweep(session)] == ["cancelled"]
    assert job_of(session, claim).attempts == 1


def test_a_batch_takes_the_oldest_claims_first(session: Session, worker: sa.Connection) -> None:
    claims = [lost(session, worker)[0] for _ in range(5)]

    first, second = sweep(session, limit=3), sweep(session, limit=3)

    assert [expired.id for expired in first] == [claim.id for claim in claims[:3]]
    assert [expired.id for expired in second] == [claim.id for claim in claims[3:]]


def test_a_low_water_mark_leaves_out_what_is_older(session: Session, worker: sa.Connection) -> None:
    _, younger = (lost(session, worker)[0] for _ in range(2))

    assert [expired.id for expired in sweep(session, low=younger.claimed_at)] == [younger.id]


def test_a_holder_that_is_spared_keeps_its_lease(session: Session, worker: sa.Connection) -> None:
    claims = lost(session, worker, count=2)

    expired = sweep(session, spare=[claims[0].token])

    assert [lease.id for lease in expired] == [claims[1].id]


@pytest.mark.postgresql("row locks")
def test_only_locked_overdue_leases_are_told_and_lookers_do_not_count(
    session: Session, worker: sa.Connection, engine: sa.Engine
) -> None:
    claims = lost(session, worker, count=3)
    with engine.begin() as locker, engine.begin() as looker:
        assert transitions.locked_overdue(looker) == set()
        locker.execute(
            sa.text("SELECT FROM jobs WHERE id = :id FOR KEY SHARE"), {"id": claims[0].id}
        )
        assert transitions.locked_overdue(session) == set()
    session.rollback()
    with engine.begin() as locker:
        locker.execute(
            sa.text("SELECT FROM jobs WHERE id = :id FOR NO KEY UPDATE"), {"id": claims[1].id}
        )
        assert transitions.locked_overdue(session) == {claims[1].token}
        assert transitions.locked_overdue(session, low=claims[2].claimed_at) == set()


# Whoever has the row first wins; the other changes nothing.


def finish(database: sa.Connection, claim: Claim) -> Any:
    return transitions.settle(database, [outcome(claim)], actor=HOLDER.name)


def take(database: sa.Connection, _claim: Claim) -> Any:
    return transitions.expire(database, actor="sweeper:2", backoff=BACKOFF)


@pytest.mark.postgresql("row locks")
@pytest.mark.parametrize(
    ("first", "second", "status"),
    [(finish, take, Status.SUCCEEDED), (take, finish, Status.QUEUED)],
)
def test_a_result_and_a_sweep_at_once_leave_one_end(
    session: Session,
    worker: sa.Connection,
    engine: sa.Engine,
    first: Callable[[sa.Connection, Claim], Any],
    second: Callable[[sa.Connection, Claim], Any],
    status: Status,
) -> None:
    [claim] = lost(session, worker)
    with engine.begin() as ahead:
        assert first(ahead, claim)
        with engine.begin() as behind:
            assert not second(behind, claim)
    with engine.begin() as later:
        assert not second(later, claim)

    assert job_of(session, claim).status == status
    tokens = [event.lease_token for event in events_of(session, claim) if event.from_status]
    ends = [e for e in events_of(session, claim) if e.from_status == "running" != e.to_status]
    assert len(ends) == 1
    assert set(tokens) == {claim.token}


def test_a_result_that_comes_after_the_sweep_is_refused_and_recorded(
    session: Session, worker: sa.Connection
) -> None:
    [claim] = lost(session, worker)
    sweep(session)
    late = outcome(claim)

    assert transitions.settle(worker, [late], actor=HOLDER.name) == {}
    assert transitions.explain(worker, [late], actor=HOLDER.name) == {claim.token: "lost"}

    assert job_of(session, claim).status == Status.QUEUED
    assert events_of(session, claim)[-1].event == "stale_write_rejected"
