"""What a dead process held comes back at once; only a death alone ends a job, all count."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import audit, transitions
from queueapp.jobs.backoff import MOST_KILLS, Backoff
from queueapp.jobs.claim import Claim
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.transitions import Death, Expired
from tests.factories import HOLDER, make_job

BACKOFF = Backoff(base_s=0)
CRASH = Death(HOLDER.name, "exit status 1", crashed=True)
KILL = Death(HOLDER.name, "SIGKILL", crashed=False)


def claim(worker: sa.Connection, count: int = 1, prefetched: int = 0) -> list[Claim]:
    claims = transitions.exchange(worker, [], HOLDER, slots=count, prefetch=prefetched).claims
    assert len(claims) == count + prefetched
    return claims


def die(session: Session, death: Death = CRASH) -> list[Expired]:
    taken = transitions.take_back(session, death, actor="supervisor:h:1", backoff=BACKOFF)
    session.commit()
    return taken


def last_event(session: Session, job_id: int) -> JobEvent:
    own = sa.select(JobEvent).where(JobEvent.job_id == job_id).order_by(JobEvent.id.desc())
    event = session.scalars(own).first()
    assert event is not None
    return event


def job(session: Session, **new: Any) -> int:
    made = make_job(session, **new).id
    session.commit()
    return made


def test_three_deaths_alone_end_the_job_whatever_its_attempts(
    session: Session, worker: sa.Connection
) -> None:
    poison = job(session, max_attempts=50)

    statuses, reasons = [], []
    for _ in range(MOST_KILLS):
        claim(worker)
        statuses += [lease.status for lease in die(session)]
        reasons.append(last_event(session, poison).reason)

    assert statuses == ["queued", "queued", "failed"]
    assert set(reasons) == {"killed_its_worker"}
    row = session.get_one(Job, poison, populate_existing=True)
    assert (row.attempts, row.error_class) == (MOST_KILLS, "LeaseLost")
    assert "exit status 1" in str(row.error_message)
    assert list(audit.check(session))[-1][1].clean


def test_deaths_in_company_count_but_the_last_one_must_be_alone(
    session: Session, worker: sa.Connection
) -> None:
    poison, innocent = job(session, max_attempts=50), job(session, max_attempts=50)

    for _ in range(MOST_KILLS + 1):
        claim(worker, 2)
        assert {lease.status for lease in die(session)} == {"queued"}
        assert last_event(session, innocent).reason == "lease_lost"
    worker.execute(sa.update(Job).where(Job.id == innocent).values(priority=-1))
    claim(worker)
    [lease] = die(session)

    assert (lease.id, lease.status) == (poison, "failed")
    assert last_event(session, poison).reason == "killed_its_worker"


def test_a_claim_that_had_not_begun_is_company_and_costs_no_attempt(
    session: Session, worker: sa.Connection
) -> None:
    first, second = job(session), job(session)
    claim(worker, 1, prefetched=1)

    die(session)

    assert last_event(session, first).reason == "lease_lost"
    assert last_event(session, second).reason == "lease_lost_before_start"
    assert session.get_one(Job, second, populate_existing=True).attempts == 0


@pytest.mark.postgresql("row locks")
def test_a_row_locked_by_somebody_is_company_and_left_to_the_sweeper(
    session: Session, engine: sa.Engine, worker: sa.Connection
) -> None:
    first, second = job(session), job(session)
    claim(worker, 2)
    with engine.begin() as other:
        other.exec_driver_sql("SELECT FROM jobs WHERE id = %s FOR UPDATE", (second,))

        taken = die(session)

    assert [lease.id for lease in taken] == [first]
    assert last_event(session, first).reason == "lease_lost"
    assert session.get_one(Job, second, populate_existing=True).status == "running"


@pytest.mark.parametrize("max_attempts", [1, 2])
def test_attempts_may_be_used_up_before(
    session: Session, worker: sa.Connection, max_attempts: int
) -> None:
    poison = job(session, max_attempts=max_attempts)

    for _ in range(max_attempts):
        claim(worker)
        die(session)

    event = last_event(session, poison)
    assert (event.event, event.reason) == ("failed", "attempts_used_up")
    assert event.attempt == max_attempts


def test_kills_from_outside_blame_nobody(session: Session, worker: sa.Connection) -> None:
    unlucky = job(session, max_attempts=50)

    for _ in range(MOST_KILLS + 1):
        claim(worker)
        die(session, KILL)

    assert last_event(session, unlucky).reason == "lease_lost"
    # They are no deaths of its own either.
    claim(worker)
    assert [lease.status for lease in die(session)] == ["queued"]


def test_a_new_life_begins_without_blame(session: Session, worker: sa.Connection) -> None:
    poison = job(session, max_attempts=50)
    for _ in range(MOST_KILLS):
        claim(worker)
        die(session)
    transitions.requeue(session, [poison], actor="cli:me", reason=None)
    session.commit()

    claim(worker)

    assert [lease.status for lease in die(session)] == ["queued"]


def test_only_the_dead_process_loses_its_leases(session: Session, worker: sa.Connection) -> None:
    job(session)
    claim(worker)

    assert die(session, Death("worker:other:1:000000", "SIGSEGV", crashed=True)) == []
