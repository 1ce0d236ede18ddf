"""The hot loop: what it writes, what it keeps, what it adopts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.database import run_hot
from queueapp.jobs.models import Job
from queueapp.jobs.queries import events_of
from queueapp.worker import Worker
from queueapp.worker.attempts import Attempt
from tests.worker.conftest import Bench, Enqueue

Read = Callable[[int], Job]


def claimed(worker: Worker) -> list[Attempt]:
    """Let the pump claim, and take the attempts out of the handlers' reach."""
    worker.inbox.wake()
    worker.pump.turn()
    found = []
    while not worker.slots.todo.empty():
        attempt = worker.slots.todo.get()
        assert worker.attempts.begin(attempt)
        found.append(attempt)
    return found


def finish(worker: Worker, attempt: Attempt) -> None:
    """Run the handler of ``attempt`` here."""
    worker.slots.run(attempt, 0)


@contextlib.contextmanager
def lost_answers() -> Iterator[None]:
    """The hot statement is executed and committed; its answer does not arrive."""
    with pytest.MonkeyPatch.context() as patch:

        def lose(*given: Any, **parameters: Any) -> None:
            run_hot(*given, **parameters)
            raise OperationalError("SELECT", {}, ConnectionResetError("cut"))

        patch.setitem(transitions.exchange.__globals__, "run_hot", lose)
        yield


@pytest.mark.postgresql("round trips")
def test_settling_ten_and_claiming_ten_is_one_statement(
    bench: Bench, enqueue: Enqueue, sent: list[str]
) -> None:
    for _ in range(20):
        enqueue()
    worker = bench.worker(concurrency=10)
    first = claimed(worker)
    for attempt in first:
        finish(worker, attempt)
    sent.clear()

    worker.pump.turn()

    assert len(sent) == 1
    assert len(worker.attempts) == 10
    assert not {a.claim.id for a in first} & {a.claim.id for a in worker.attempts.leases()}


@pytest.mark.postgresql("row locks")
def test_a_locked_row_is_kept_for_the_next_turn_and_stops_nobody(
    bench: Bench, enqueue: Enqueue, job: Read, engine: Engine
) -> None:
    ids = [enqueue() for _ in range(4)]
    worker = bench.worker()
    attempts = claimed(worker)
    with engine.connect() as psql:
        psql.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": ids[0]})
        for attempt in attempts:
            finish(worker, attempt)

        worker.pump.turn()

        assert [job(i).status for i in ids] == ["running"] + ["succeeded"] * 3
        assert not worker.pump.settled
    worker.pump.turn()
    assert job(ids[0]).status == "succeeded"
    assert worker.pump.settled


@pytest.mark.postgresql("an answer lost on the network")
def test_claims_whose_answer_was_lost_are_adopted_and_run(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue()
    worker = bench.worker()
    worker.inbox.wake()
    with lost_answers(), pytest.raises(OperationalError):
        worker.pump.turn()
    assert job(job_id).status == "running"

    [attempt] = claimed(worker)
    finish(worker, attempt)
    worker.pump.turn()

    assert (job(job_id).status, job(job_id).attempts) == ("succeeded", 1)
    assert [e.event for e in events_of(session, job_id)] == ["enqueued", "claimed", "succeeded"]


def test_outcomes_whose_answer_was_lost_are_acknowledged_not_written_twice(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue()
    worker = bench.worker()
    [attempt] = claimed(worker)
    finish(worker, attempt)
    with lost_answers(), pytest.raises(OperationalError):
        worker.pump.turn()

    worker.pump.turn()

    assert worker.pump.settled
    assert [e.event for e in events_of(session, job_id)] == ["enqueued", "claimed", "succeeded"]


@pytest.mark.postgresql("triggers")
def test_an_outcome_that_cannot_be_stored_fails_alone(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    ids = [enqueue() for _ in range(3)]
    worker = bench.worker()
    attempts = claimed(worker)
    for attempt in attempts:
        finish(worker, attempt)
    session.execute(
        text(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'odd' USING ERRCODE = '22P05'; END $$"
        )
    )
    session.execute(
        text(
            "CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW"
            f" WHEN (NEW.id = {ids[1]} AND NEW.status = 'succeeded') EXECUTE FUNCTION refuse()"
        )
    )
    session.commit()
    try:
        worker.pump.turn()
        worker.pump.turn()
    finally:
        session.rollback()
        session.execute(text("DROP FUNCTION refuse CASCADE"))
        session.commit()

    assert [job(i).status for i in ids] == ["succeeded", "failed", "succeeded"]
    assert job(ids[1]).error_class == "OutcomeNotStorable"


def test_the_first_word_about_an_attempt_counts(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue(timeout_s=1)
    worker = bench.worker()
    [attempt] = claimed(worker)
    session.execute(text("UPDATE jobs SET started_at = clock_timestamp() - interval '2 s'"))
    session.commit()

    worker.keeper.tick()
    finish(worker, attempt)
    worker.pump.claiming = False
    worker.pump.turn()

    assert (job(job_id).status, job(job_id).error_class) == ("queued", "JobTimeout")
    assert worker.pump.settled


def test_a_last_word_that_crosses_with_its_abandonment_is_written(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    said, silent = enqueue(), enqueue()
    worker = bench.worker()
    for attempt in claimed(worker):
        worker.inbox.abandon(attempt.claim.token)
        if attempt.claim.id == said:
            finish(worker, attempt)
    worker.pump.claiming = False

    worker.pump.turn()

    assert (job(said).status, job(silent).status) == ("succeeded", "running")
    assert worker.pump.settled


def test_a_paused_pump_settles_and_does_not_claim(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    first = enqueue()
    worker = bench.worker()
    [attempt] = claimed(worker)
    second = enqueue()
    worker.pump.paused = True
    finish(worker, attempt)

    worker.pump.turn()

    assert (job(first).status, job(second).status) == ("succeeded", "queued")


def test_nothing_is_prefetched_until_twenty_short_runs_went_well(
    bench: Bench, enqueue: Enqueue
) -> None:
    for _ in range(60):
        enqueue()
    worker = bench.worker(concurrency=1, prefetch=5)

    for _ in range(20):
        [attempt] = claimed(worker)
        assert len(worker.attempts) == 1
        finish(worker, attempt)
    worker.inbox.wake()
    worker.pump.turn()

    assert 1 < len(worker.attempts) <= 6


def test_a_failed_run_ends_the_prefetching(bench: Bench) -> None:
    worker = bench.worker(prefetch=50)
    for _ in range(20):
        worker.pump.prefetch.measured("demo.echo", 0.0001, well=True)
    assert worker.pump._room() == (4, 50)

    worker.pump.prefetch.measured("demo.echo", 0.0001, well=False)

    assert worker.pump._room() == (4, 0)


def test_a_slow_kind_among_the_last_runs_bounds_the_prefetch(bench: Bench) -> None:
    worker = bench.worker(prefetch=50)
    for _ in range(19):
        worker.pump.prefetch.measured("demo.echo", 0.0001, well=True)

    worker.pump.prefetch.measured("demo.sleep", 0.1, well=True)

    assert worker.pump._room() == (4, 2)


def test_prefetched_claims_that_waited_too_long_are_given_back(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    ids = [enqueue() for _ in range(3)]
    worker = bench.worker(concurrency=1, prefetch=5)
    for _ in range(20):
        worker.pump.prefetch.measured("demo.echo", 0.001, well=True)
    worker.inbox.wake()
    worker.pump.turn()
    first = worker.slots.todo.get()
    assert worker.attempts.begin(first)
    assert [job(i).started_at is not None for i in ids] == [True, False, False]
    for attempt in worker.attempts.leases():
        attempt.claimed -= 1

    worker.pump.paused = True
    worker.inbox.wake()
    worker.pump.turn()

    assert [job(i).status for i in ids] == ["running", "queued", "queued"]
    assert [job(i).attempts for i in ids] == [1, 0, 0]
    assert events_of(session, ids[1])[-1].reason == "prefetch_unused"


def test_the_start_of_a_prefetched_job_that_runs_on_is_written(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    ids = [enqueue() for _ in range(2)]
    worker = bench.worker(concurrency=1, prefetch=1)
    for _ in range(20):
        worker.pump.prefetch.measured("demo.echo", 0.001, well=True)
    worker.inbox.wake()
    worker.pump.turn()
    for _ in ids:
        attempt = worker.slots.todo.get()
        worker.attempts.begin(attempt)
        assert attempt.began is not None
        attempt.began -= 0.2

    worker.inbox.wake()
    worker.pump.turn()

    assert job(ids[1]).started_at is not None
