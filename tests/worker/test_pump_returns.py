"""What the pump gives back, what it must not forget, and when it may say that nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from queueapp.jobs import transitions
from queueapp.jobs.models import Job
from queueapp.worker import Worker
from queueapp.worker.attempts import Attempt
from queueapp.worker.prefetch import MEASURED_RUNS
from queueapp.worker.pump import FALLBACK_S
from tests.worker.conftest import Bench, Enqueue
from tests.worker.test_pump import claimed, finish

Read = Callable[[int], Job]


def prefetching(bench: Bench, **terms: Any) -> Worker:
    """A worker of one thread that has measured short runs."""
    worker = bench.worker(concurrency=1, prefetch=5, **terms)
    for _ in range(MEASURED_RUNS):
        worker.pump.prefetch.measured("test.echo", 0.001, well=True)
    return worker


def one_begun(worker: Worker) -> tuple[Attempt, list[Attempt]]:
    """Claim, and let the first one begin; the others wait behind it."""
    worker.inbox.wake()
    worker.pump.turn()
    first, *others = worker.attempts.leases()
    assert worker.attempts.begin(first)
    return first, others


@pytest.mark.postgresql("what one statement sees")
def test_a_worker_is_not_drained_while_what_it_gave_back_is_due(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    """The claim in the same statement cannot see it yet."""
    _, second = enqueue(), enqueue()
    worker = prefetching(bench, drain=True)
    first, [behind] = one_begun(worker)
    behind.claimed -= 1.0
    finish(worker, first)

    worker.pump.turn()
    assert job(second).status == "queued"

    # It lies behind the cursor: the next look misses it, a whole one does not.
    while job(second).status == "queued":
        assert not worker.pump.drained
        worker.pump.turn()
    assert job(second).status == "running"


def test_a_worker_that_is_paused_after_a_look_behind_the_cursor_is_drained(
    bench: Bench, enqueue: Enqueue
) -> None:
    worker = bench.worker(concurrency=1, drain=True)
    enqueue()
    [attempt] = claimed(worker)
    finish(worker, attempt)
    worker.pump._looks._whole_at += 1000.0
    worker.pump.turn()
    assert worker.pump._looks.patience
    assert not worker.pump.drained

    worker.pump.paused = True
    worker.inbox.wake()
    worker.pump.turn()

    assert worker.pump.drained


@pytest.mark.postgresql("row locks")
def test_a_start_is_written_until_the_row_has_it(
    bench: Bench, enqueue: Enqueue, job: Read, engine: Engine
) -> None:
    """Without a start in its row an attempt has no time-out."""
    enqueue()
    second = enqueue(timeout_s=60)
    worker = prefetching(bench)
    first, [behind] = one_begun(worker)
    finish(worker, first)
    assert worker.attempts.begin(behind)
    assert behind.began is not None
    behind.began -= 1.0
    with engine.connect() as psql:
        psql.execute(text("SELECT FROM jobs WHERE id = :id FOR UPDATE"), {"id": second})
        worker.pump.turn()
    assert job(second).started_at is None

    worker.inbox.wake()
    worker.pump.turn()

    assert job(second).started_at is not None


def test_a_row_without_a_start_does_not_keep_an_attempt_from_its_time_out(
    bench: Bench, enqueue: Enqueue
) -> None:
    enqueue()
    enqueue(timeout_s=60)
    worker = prefetching(bench)
    _, [behind] = one_begun(worker)
    assert worker.attempts.begin(behind)
    assert behind.began is not None
    behind.began -= 61.0

    worker.keeper.tick()

    assert behind.given_up
    assert behind.context.stop_reason == "timeout"


def test_new_claims_start_although_nobody_says_what_became_of_an_outcome(
    bench: Bench, enqueue: Enqueue, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, fresh = enqueue(), enqueue()
    worker = bench.worker(concurrency=1)
    [attempt] = claimed(worker)
    with engine.begin() as psql:
        psql.execute(
            text("UPDATE jobs SET lease_token = :token WHERE id = :id"),
            {"token": "00000000-0000-4000-8000-000000000000", "id": lost},
        )
    finish(worker, attempt)

    def no_answer(*_given: Any, **_more: Any) -> None:
        raise OperationalError("SELECT", {}, ConnectionResetError("cut"))

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "explain", no_answer)
        with pytest.raises(OperationalError):
            worker.pump.turn()

    started = worker.slots.todo.get(timeout=1)
    assert started.claim.id == fresh


def test_a_due_time_that_has_passed_is_not_slept_over(bench: Bench) -> None:
    worker = bench.worker()
    worker.pump.expect_due(0.001)
    worker.pump._due_at -= 1.0

    assert worker.pump._patience() == 0.0


def test_a_due_time_that_comes_while_the_wait_is_reckoned_ends_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = bench.worker()
    patience = worker.pump._patience

    def meanwhile() -> float:
        found = patience()
        worker.pump.expect_due(0.5)
        return found

    monkeypatch.setattr(worker.pump, "_patience", meanwhile)
    began = time.monotonic()
    worker.pump.turn()
    assert time.monotonic() - began < FALLBACK_S / 2


@pytest.mark.parametrize("by", ["pause", "hold"])
def test_what_waits_is_given_back_at_once_when_it_must_not_begin(
    bench: Bench, enqueue: Enqueue, job: Read, by: str
) -> None:
    enqueue()
    second = enqueue()
    worker = prefetching(bench)
    _, [behind] = one_begun(worker)
    if by == "pause":
        worker.pump.paused = True
    else:
        worker.pump.holder = replace(worker.pump.holder, skip=(behind.claim.kind,))

    worker.inbox.wake()
    worker.pump.turn()

    assert job(second).status == "queued"
    assert not worker.attempts.begin(behind)


def test_an_attempt_that_was_given_up_before_it_began_frees_its_slot(
    bench: Bench, enqueue: Enqueue
) -> None:
    enqueue()
    worker = bench.worker(concurrency=1)
    worker.inbox.wake()
    worker.pump.turn()
    [attempt] = worker.attempts.leases()
    worker.attempts.give_up(attempt.claim.token)

    assert not worker.attempts.begin(attempt)
    assert len(worker.attempts) == 0
