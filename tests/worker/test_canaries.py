"""Canary retries as a worker's housekeeping decides on them, by what its own handlers came to."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from queueapp.jobs import operations
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.operations import Operation, driver
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from queueapp.worker import Worker
from tests.factories import make_job
from tests.worker.conftest import Bench

Begin = Callable[[str, int], str]


@pytest.fixture
def begin(session: Session) -> Begin:
    """Plan a canary retry of so many failed jobs of a kind and let the first go ahead; its id."""

    def begin(kind: str, jobs: int) -> str:
        payload = {"message": "hello"} if kind == "demo.echo" else {"name": "value"}
        for _ in range(jobs):
            make_job(session, Status.FAILED, kind=kind, payload=payload, max_attempts=1)
        session.commit()
        found = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
        made = operations.plan(
            session, found, how={}, actor="user:ana", reason="try", canary=operations.Terms()
        )
        session.commit()
        operations.step(session, made.id, actor="user:ana", via="console")
        session.commit()
        return made.id

    return begin


def found(session: Session, operation_id: str) -> Operation:
    session.rollback()
    return operations.find(session, operation_id)


def statuses(session: Session) -> list[str]:
    session.rollback()
    return list(session.scalars(select(Job.status).order_by(Job.id)))


def test_a_worker_whose_handlers_succeed_lets_the_rest_follow(
    bench: Bench, begin: Begin, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, in batches, whoever has planned it and gone to bed."""
    monkeypatch.setattr(driver, "BATCH", 2)
    worker = bench.worker(concurrency=10)
    operation_id = begin("demo.echo", 10)
    assert worker.upkeep.try_canaries() == 1
    assert found(session, operation_id).is_on_trial

    bench.run_one(worker)
    for _ in range(5):  # as far as each comes within its time
        worker.upkeep.try_canaries()

    done = found(session, operation_id)
    assert (done.state, done.moved, done.changed_by) == (
        "done", 10, f"housekeeping:{worker.terms.name}",
    )  # fmt: skip
    assert statuses(session) == ["succeeded"] * 5 + ["queued"] * 5


def test_a_worker_whose_handlers_fail_again_leaves_the_rest(
    bench: Bench, begin: Begin, session: Session
) -> None:
    worker = bench.worker(concurrency=10)
    operation_id = begin("test.raises", 7)

    bench.run_one(worker)
    worker.upkeep.try_canaries()

    stopped = found(session, operation_id)
    assert (stopped.state, stopped.end_reason, stopped.moved) == ("stopped", "canary_failed", 5)
    assert statuses(session) == ["failed"] * 7
    assert worker.upkeep.try_canaries() == 60


@pytest.mark.postgresql("writers that overlap")
def test_workers_look_beside_each_other_and_one_of_them_acts(
    bench: Bench, begin: Begin, session: Session, engine: Engine
) -> None:
    worker, other = bench.worker(concurrency=10), bench.worker()
    operation_id = begin("demo.echo", 7)
    bench.run_one(worker)
    with Session(engine) as rival:
        # A page of the console, say, is at work on it.
        operations.advance(rival, operation_id, actor="user:ana")
        waits = [each.upkeep.try_canaries() for each in (worker, other)]
        assert found(session, operation_id).is_on_trial
        rival.rollback()

    other.upkeep.try_canaries()
    worker.upkeep.try_canaries()

    assert waits == [1, 1]
    done = found(session, operation_id)
    assert (done.state, done.moved) == ("done", 7)


def test_the_duty_is_among_those_of_housekeeping(
    bench: Bench, begin: Begin, session: Session
) -> None:
    worker: Worker = bench.worker(concurrency=10)
    operation_id = begin("demo.echo", 6)
    bench.run_one(worker)

    worker.housekeeping.tick()

    assert found(session, operation_id).state == "done"


def test_a_worker_that_has_looked_in_vain_hears_of_the_next_one(
    bench: Bench, begin: Begin, session: Session
) -> None:
    worker = bench.worker(concurrency=10)
    worker.housekeeping.tick()
    operation_id = begin("demo.echo", 6)
    bench.run_one(worker)

    worker.housekeeping.tick()

    assert found(session, operation_id).state == "done"


def test_one_that_cannot_be_read_ends_no_worker_and_stops_no_other(
    bench: Bench, begin: Begin, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """As another release may have written it."""
    worker = bench.worker(concurrency=10)
    odd, operation_id = begin("test.raises", 6), begin("demo.echo", 6)
    planned = JobEvent.scope == f"op:{odd}", JobEvent.event == "op_planned"
    session.execute(update(JobEvent).where(*planned).values(data={"verb": "wash"}))
    session.commit()
    bench.run_one(worker)

    for _ in range(3):
        assert worker.upkeep.try_canaries() == 1

    assert found(session, operation_id).state == "done"
    told = [record for record in caplog.records if odd in record.getMessage()]
    assert [record.levelname for record in told if record.levelno >= logging.INFO] == ["ERROR"]
