"""Renewing, and what handlers are told."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.models import Job
from queueapp.worker import Worker
from queueapp.worker.attempts import Attempt
from tests.worker.conftest import Bench, Enqueue
from tests.worker.test_pump import claimed

Read = Callable[[int], Job]


def test_a_held_lease_moves_forward(bench: Bench, enqueue: Enqueue, job: Read) -> None:
    job_id = enqueue()
    worker = bench.worker()
    claimed(worker)
    before = job(job_id).lease_expires_at

    worker.keeper.hurry()
    worker.keeper.tick()

    after = job(job_id).lease_expires_at
    assert before is not None
    assert after is not None
    assert after > before


def test_a_cancel_request_reaches_the_handler(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    job_id = enqueue("test.stops")
    worker = bench.worker()
    [attempt] = claimed(worker)
    transitions.one(transitions.cancel, session, job_id, actor="user:ana")
    session.commit()

    worker.housekeeping.tick()
    worker.keeper.tick()

    assert attempt.context.stop_reason == "cancel"


def test_a_cancelled_handler_that_stops_ends_as_cancelled(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue("test.stops")
    worker = bench.worker()
    [attempt] = claimed(worker)
    transitions.one(transitions.cancel, session, job_id, actor="user:ana")
    session.commit()
    worker.keeper.hurry()
    worker.keeper.tick()

    worker.slots.run(attempt, 0)
    worker.pump.turn()

    assert job(job_id).status == "cancelled"


def test_a_lost_lease_reaches_the_handler_and_is_not_renewed_again(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    enqueue("test.stops")
    worker = bench.worker()
    [attempt] = claimed(worker)
    session.execute(text("UPDATE jobs SET lease_token = gen_random_uuid()"))
    session.commit()

    worker.keeper.hurry()
    worker.keeper.tick()

    assert attempt.context.stop_reason == "lost"
    assert worker.attempts.leases() == []
    assert len(worker.attempts) == 1


def with_a_lost_claim(bench: Bench, enqueue: Enqueue, session: Session) -> Worker:
    """A worker that has heard that its claim is lost while that still waits for a thread."""
    enqueue()
    worker = bench.worker()
    worker.inbox.wake()
    worker.pump.turn()
    session.execute(text("UPDATE jobs SET lease_token = gen_random_uuid()"))
    session.commit()
    worker.keeper.hurry()
    worker.keeper.tick()
    return worker


def test_a_claim_that_is_lost_before_its_handler_began_is_over(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    """Nobody else will say how it ended: a worker would never be drained."""
    worker = with_a_lost_claim(bench, enqueue, session)
    worker.pump.turn()

    attempt = worker.slots.todo.get(timeout=1)
    assert not worker.attempts.begin(attempt)
    assert worker.pump.settled


def test_a_claim_that_was_lost_and_is_over_is_not_handed_back(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    """The pump has closed it while it still waits for a thread; it would not know it any more."""
    worker = with_a_lost_claim(bench, enqueue, session)

    worker.pump.claiming = False
    worker.pump.turn()

    assert worker.pump.settled
    assert worker.pump.closed


def test_a_claim_whose_lease_ran_out_while_it_waited_never_begins(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    """This process may have been frozen meanwhile; whether the row was swept it cannot know."""
    job_id = enqueue()
    worker = bench.worker(lease=30)
    asked_at = time.monotonic()
    worker.inbox.wake()
    worker.pump.turn()
    attempt = worker.slots.todo.get(timeout=1)
    assert asked_at + 30 <= attempt.lease_ends <= time.monotonic() + 30

    attempt.lease_ends = time.monotonic()
    worker.slots.handle(attempt, 0)
    worker.pump.claiming = False
    worker.pump.turn()

    row = job(job_id)
    assert (attempt.began, row.status, row.attempts) == (None, "queued", 0)
    assert worker.pump.settled


def test_a_renewed_claim_may_begin(bench: Bench, enqueue: Enqueue) -> None:
    enqueue()
    worker = bench.worker()
    worker.inbox.wake()
    worker.pump.turn()
    attempt = worker.slots.todo.get(timeout=1)
    attempt.lease_ends = time.monotonic()

    worker.keeper.hurry()
    worker.keeper.tick()

    assert worker.attempts.begin(attempt)


def test_progress_is_written_with_the_next_tick(bench: Bench, enqueue: Enqueue, job: Read) -> None:
    job_id = enqueue("test.reports")
    worker = bench.worker()
    [attempt] = claimed(worker)
    attempt.context.interrupt("shutdown")
    worker.slots.run(attempt, 0)
    worker.attempts.add([attempt])

    worker.keeper.tick()

    assert (job(job_id).progress, job(job_id).progress_note) == (40, "half-way, nearly")


def test_a_lease_ends_with_the_time_out_of_its_attempt(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    enqueue(timeout_s=5)
    worker = bench.worker(lease=60)
    claimed(worker)

    worker.keeper.hurry()
    worker.keeper.tick()

    left = session.scalar(
        text("SELECT extract(epoch FROM lease_expires_at - started_at) FROM jobs")
    )
    assert abs(float(left or 0) - 5) < 0.01


def at_work(bench: Bench) -> tuple[Worker, Attempt]:
    """A worker whose next renewal is far away, and its only attempt, begun."""
    worker = bench.worker(lease=3600)
    [attempt] = claimed(worker)
    assert worker.attempts.begin(attempt)
    worker.keeper.tick()
    return worker, attempt


def test_a_handler_hears_of_its_time_out_long_before_the_next_renewal(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue(timeout_s=5)
    worker, attempt = at_work(bench)
    session.execute(text("UPDATE jobs SET started_at = started_at - interval '6 s'"))
    session.commit()
    assert attempt.began is not None
    attempt.began -= 6

    worker.keeper.tick()
    worker.pump.turn()

    assert attempt.context.stop_reason == "timeout"
    row = job(job_id)
    assert (row.status, row.error_class) == ("queued", "JobTimeout")


def test_a_time_out_that_a_sweeper_saw_first_is_told_as_one(
    bench: Bench, enqueue: Enqueue, session: Session
) -> None:
    enqueue(timeout_s=5)
    worker, attempt = at_work(bench)
    session.execute(text("UPDATE jobs SET lease_token = gen_random_uuid()"))
    session.commit()
    assert attempt.began is not None
    attempt.began -= 6

    worker.keeper.tick()

    assert attempt.context.stop_reason == "timeout"
    assert worker.attempts.unreturned() == [attempt.claim.token]
