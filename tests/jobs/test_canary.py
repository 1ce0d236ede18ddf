"""Canary retries: five go ahead, the rest follows if four of them succeed, else it stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.errors import OperationBusy
from queueapp.jobs import audit, operations, transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.operations import Operation, canary
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Event, Reason, Status
from tests.factories import HOLDER, claim_one, make_job, outcome
from tests.jobs.explain import Prepared

ANA: dict[str, Any] = {"actor": "user:ana"}
WORKER = {"actor": "housekeeping:w1"}


class Bulk:
    """A canary retry of failed jobs, and what becomes of them."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def begin(self, jobs: int) -> tuple[Operation, list[int]]:
        """Fail so many jobs, plan to retry them, and let the first go ahead."""
        ids = [make_job(self.session, Status.FAILED, max_attempts=2).id for _ in range(jobs)]
        self.session.commit()
        made = self.plan()
        made = operations.step(self.session, made.id, **ANA, via="console")
        self.session.commit()
        return made, ids

    def plan(self) -> Operation:
        where = JobFilter(status=(Status.FAILED,))
        found = operations.survey(self.session, "retry", where)
        made = operations.plan(
            self.session, found, how={}, reason="it is back", canary=operations.Terms(), **ANA
        )
        self.session.commit()
        return made

    def end(self, ids: list[int], verb: str = "succeed") -> None:
        for job_id in ids:
            claim = claim_one(self.session, job_id)
            transitions.settle(self.session, [outcome(claim, verb)], actor=HOLDER.name)
        self.session.commit()

    def tick(self, made: Operation) -> Operation:
        made = operations.advance(self.session, made.id, **WORKER)
        self.session.commit()
        return made

    def tick_to_the_end(self, made: Operation) -> Operation:
        while not (made := self.tick(made)).is_over:
            assert not made.is_on_trial
        return made

    def statuses(self, ids: list[int]) -> list[str]:
        found = self.session.execute(
            sa.select(Job.status).where(Job.id.in_(ids)).order_by(Job.id)
        ).scalars()
        return list(found)

    def moved(self, made: Operation) -> list[int]:
        """The jobs whose lines name the operation, as often as they do."""
        lines = self.session.scalars(
            sa.select(JobEvent).where(JobEvent.event == "requeued").order_by(JobEvent.id)
        )
        mine = [line for line in lines if line.data.get("operation") == made.id]
        assert {line.reason for line in mine} <= {"it is back"}
        return [line.job_id for line in mine if line.job_id is not None]

    def lines(self, made: Operation) -> list[JobEvent]:
        own = sa.select(JobEvent).where(JobEvent.scope == f"op:{made.id}")
        return list(self.session.scalars(own.order_by(JobEvent.id)))

    def a_while_passes(self, made: Operation, seconds: float) -> None:
        """Its lines become older by so much."""
        older = JobEvent.created_at - sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)
        own = sa.update(JobEvent).where(JobEvent.scope == f"op:{made.id}")
        self.session.execute(own.values(created_at=older))
        self.session.commit()


@pytest.fixture
def bulk(session: Session) -> Iterator[Bulk]:
    yield Bulk(session)
    session.rollback()
    *_, (_, report) = audit.check(session)
    assert report.clean, report.offenders


def test_the_five_oldest_go_ahead_and_the_rest_waits(bulk: Bulk) -> None:
    made, ids = bulk.begin(8)

    assert (made.state, made.moved, made.is_on_trial) == ("canary", 5, True)
    assert made.canary is not None
    assert made.canary.jobs == tuple(ids[:5])
    assert bulk.statuses(ids) == ["queued"] * 5 + ["failed"] * 3
    # Neither a person's click nor a worker's look moves anything while they are open.
    again = operations.step(bulk.session, made.id, **ANA, via="api")
    assert bulk.tick(made) == again == made
    assert bulk.moved(made) == ids[:5]
    assert operations.open_ones(bulk.session) == [made.id]


def test_four_successes_let_the_rest_follow(bulk: Bulk) -> None:
    made, ids = bulk.begin(8)
    bulk.end(ids[:3])
    assert bulk.tick(made).is_on_trial
    bulk.end(ids[3:4])

    decided = bulk.tick(made)
    done = bulk.tick_to_the_end(made)

    assert (decided.state, decided.moved) == ("applying", 5)
    assert (done.state, done.moved, done.skipped) == ("done", 8, 0)
    assert done.canary is not None
    assert (done.canary.passed, done.canary.succeeded) == (True, 4)
    assert bulk.moved(made) == ids
    assert bulk.statuses(ids[4:]) == ["queued"] * 4
    assert operations.open_ones(bulk.session) == []


def test_two_failures_leave_the_rest_as_it_is(bulk: Bulk) -> None:
    made, ids = bulk.begin(8)
    bulk.end(ids[:3])
    # A failed attempt that is to be tried again is not the end of its job.
    bulk.end(ids[3:5], "retry")
    assert bulk.tick(made).is_on_trial
    bulk.end(ids[3:5], "fail")

    stopped = bulk.tick(made)

    assert (stopped.state, stopped.end_reason) == ("stopped", Reason.CANARY_FAILED)
    assert stopped.changed_by == WORKER["actor"]
    assert stopped.canary is not None
    assert (stopped.canary.passed, stopped.canary.succeeded) == (False, 3)
    assert bulk.statuses(ids[5:]) == ["failed"] * 3
    assert bulk.moved(made) == ids[:5]
    assert bulk.tick(made) == stopped


@pytest.mark.parametrize("how", ["cancelled", "purged", "without a trace"])
def test_what_is_taken_away_has_not_succeeded(bulk: Bulk, how: str) -> None:
    made, ids = bulk.begin(6)
    bulk.end(ids[:3])
    if how == "without a trace":
        bulk.session.execute(sa.delete(Job).where(Job.id.in_(ids[3:5])))
        bulk.session.execute(sa.delete(JobEvent).where(JobEvent.job_id.in_(ids[3:5])))
    else:
        transitions.cancel(bulk.session, ids[3:5], **ANA)
    if how == "purged":
        transitions.purge(bulk.session, ids[3:5], **ANA)
    bulk.session.commit()

    stopped = bulk.tick(made)

    assert (stopped.state, stopped.end_reason) == ("stopped", Reason.CANARY_FAILED)
    assert bulk.statuses(ids[5:]) == ["failed"]


def test_the_first_end_of_a_job_decides_whatever_comes_after(bulk: Bulk) -> None:
    """A success that was purged counts; a failure that somebody else retried stays one."""
    made, ids = bulk.begin(6)
    bulk.end(ids[:3])
    transitions.purge(bulk.session, ids[:3], **ANA)
    bulk.end(ids[3:5], "fail")
    transitions.requeue(bulk.session, ids[3:5], **ANA)
    bulk.end(ids[3:5])

    assert made.canary is not None
    fates = operations.trials_of(bulk.session, made.id, made.canary, planned_at=made.planned_at)

    assert [trial.fate for trial in fates] == ["succeeded"] * 3 + ["failed"] * 2
    assert bulk.tick(made).end_reason == Reason.CANARY_FAILED


@pytest.mark.postgresql("ages lines by an interval")
def test_what_takes_too_long_is_stopped(bulk: Bulk) -> None:
    made, ids = bulk.begin(6)
    bulk.end(ids[:3])
    bulk.a_while_passes(made, canary.WAIT_S - 60)
    assert bulk.tick(made).is_on_trial
    bulk.a_while_passes(made, 61)

    stopped = bulk.tick(made)

    assert (stopped.state, stopped.end_reason) == ("stopped", Reason.CANARY_TIMED_OUT)
    assert bulk.statuses(ids[3:]) == ["queued", "queued", "failed"]


def test_no_more_than_five_jobs_have_no_rest_to_wait(bulk: Bulk) -> None:
    made, ids = bulk.begin(3)

    assert (made.state, made.moved, made.skipped) == ("done", 3, 0)
    assert made.canary is not None
    assert made.canary.jobs == tuple(ids)


def test_others_go_ahead_for_those_that_have_changed(bulk: Bulk) -> None:
    ids = [make_job(bulk.session, Status.FAILED).id for _ in range(8)]
    bulk.session.commit()
    made = bulk.plan()
    transitions.requeue(bulk.session, ids[1:3], **ANA)
    bulk.end(ids[1:3], "fail")

    # They are in the filter again, but the ledger has spoken of them since the plan.
    made = operations.step(bulk.session, made.id, **ANA, via="console")
    assert (made.state, made.is_on_trial, made.moved) == ("canary", False, 3)
    made = bulk.tick(made)

    assert made.is_on_trial
    assert made.canary is not None
    assert list(made.canary.jobs) == bulk.moved(made) == [ids[0], *ids[3:7]]


def test_a_person_stops_it_while_it_is_open(bulk: Bulk) -> None:
    made, ids = bulk.begin(7)
    operations.stop(bulk.session, made.id, **ANA, reason="not now")
    bulk.end(ids[:5])

    stopped = bulk.tick(made)

    assert (stopped.state, stopped.end_reason, stopped.moved) == ("stopped", "not now", 5)
    assert stopped.canary is not None
    assert stopped.canary.passed is None
    assert bulk.statuses(ids[5:]) == ["failed"] * 2
    assert operations.open_ones(bulk.session) == []


def test_a_worker_that_dies_between_two_steps_loses_nothing(bulk: Bulk, session: Session) -> None:
    """Each step is one transaction, and the next worker goes on from what the ledger says."""
    made, ids = bulk.begin(8)
    bulk.end(ids[:4])
    for _ in range(2):
        undone = operations.advance(session, made.id, **WORKER)
        assert undone.state == "applying"
        session.rollback()
        assert operations.find(session, made.id).is_on_trial
    bulk.tick(made)
    operations.advance(session, made.id, **WORKER)
    session.rollback()
    assert bulk.statuses(ids[5:]) == ["failed"] * 3

    done = bulk.tick_to_the_end(made)

    assert (done.state, done.moved) == ("done", 8)
    assert bulk.moved(made) == ids
    decided = [line for line in bulk.lines(made) if "passed" in line.data]
    assert [line.event for line in decided] == [Event.OP_CANARY]


@pytest.mark.postgresql("writers that overlap")
def test_two_looks_at_once_decide_once(bulk: Bulk, engine: sa.Engine) -> None:
    made, ids = bulk.begin(8)
    bulk.end(ids[:4])
    with Session(engine) as rival:
        operations.advance(rival, made.id, actor="housekeeping:w2")
        with pytest.raises(OperationBusy):
            operations.advance(bulk.session, made.id, **WORKER)
        bulk.session.rollback()
        rival.commit()

    done = bulk.tick_to_the_end(made)

    assert done.moved == 8
    decided = [line for line in bulk.lines(made) if "passed" in line.data]
    assert [line.actor for line in decided] == ["housekeeping:w2"]
    assert bulk.moved(made) == ids


@pytest.mark.postgresql("writers that overlap")
def test_stop_waits_for_a_verdict_at_work_and_then_holds(bulk: Bulk, engine: sa.Engine) -> None:
    """Whoever comes first to the end of an operation: nothing is both passed and stopped."""
    made, ids = bulk.begin(8)
    bulk.end(ids[:4])
    with Session(engine) as rival:
        operations.stop(rival, made.id, actor="user:bob", reason="no")
        bulk.session.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(sa.exc.OperationalError):
            operations.advance(bulk.session, made.id, **WORKER)
        bulk.session.rollback()
        rival.commit()

    stopped = bulk.tick(made)

    assert (stopped.state, stopped.end_reason) == ("stopped", "no")
    assert stopped.canary is not None
    assert stopped.canary.passed is None
    assert bulk.moved(made) == ids[:5]


@pytest.mark.postgresql("plans and what they read")
def test_what_a_worker_asks_is_asked_by_probes(worker: sa.Connection) -> None:
    """By plans that were made while the ledger was empty."""
    worker.execute(sa.text("SET plan_cache_mode = force_generic_plan"))
    ended = """
        INSERT INTO job_events (job_id, kind, event, to_status, actor)
        SELECT n % 1000, 'demo.echo', 'succeeded', 'succeeded', 'app'
        FROM generate_series(1, 30000) n"""
    over = """
        INSERT INTO job_events (scope, event, actor, data)
        SELECT 'op:' || n, e, 'app', '{}' FROM generate_series(1, 3000) n,
          unnest(ARRAY['op_batch', 'op_done']) e"""
    asked: dict[str, Any] = {"ids": [1, 2, 3, 4, 5], "operation": "1", "since": "2020-01-01"}
    with (
        Prepared(worker, "fates", canary._FATES) as fates,
        Prepared(worker, "open", canary._OPEN) as open_ones,
    ):
        fates.run(**asked)
        open_ones.run(limit=20)
        worker.execute(sa.text(ended))
        worker.execute(sa.text(over))

        plans = fates.run(**asked), open_ones.run(limit=20)

    for plan in plans:
        assert plan.scans("Seq Scan") == []
        assert plan.tree["Shared Hit Blocks"] + plan.tree["Shared Read Blocks"] <= 600
