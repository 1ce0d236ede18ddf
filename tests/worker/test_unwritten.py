"""Outcomes that wait to be written: in what portions, and what one of them cannot do to others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.models import Job
from queueapp.jobs.transitions import Outcome
from queueapp.worker.unwritten import MOST_BYTES, Unwritten
from tests.worker.conftest import Bench, Enqueue
from tests.worker.test_pump import claimed, finish, lost_answers

Read = Callable[[int], Job]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def outcome(job: int, size: int = 0) -> Outcome:
    """How an attempt of ``job`` ended."""
    return Outcome(job, uuid4(), "succeed", NOW, size=size)


def all_of(*outcomes: Outcome) -> Unwritten:
    """These, come in that order."""
    unwritten = Unwritten()
    for one in outcomes:
        unwritten.add(one)
    return unwritten


def ids(batch: list[Outcome]) -> list[int]:
    """Whose they are."""
    return [one.id for one in batch]


def test_one_statement_carries_a_bounded_size_and_always_something() -> None:
    half = MOST_BYTES // 2
    first, second, third, fourth = (
        outcome(1, MOST_BYTES + 1),
        outcome(2, half),
        outcome(3, half),
        outcome(4),
    )
    unwritten = all_of(first, second, third, fourth)

    assert ids(unwritten.batch()) == [1]
    unwritten.pop(first.token)
    assert ids(unwritten.batch()) == [2, 3, 4]


def test_those_whose_rows_are_locked_let_the_others_go_first() -> None:
    first, second = outcome(1, MOST_BYTES), outcome(2, 1)
    unwritten = all_of(first, second)
    assert ids(unwritten.batch()) == [1]

    unwritten.postpone(first.token)

    assert ids(unwritten.batch()) == [2]


def test_the_first_word_about_an_attempt_counts() -> None:
    first = outcome(1)
    unwritten = all_of(first, first._replace(verb="retry"))
    assert unwritten.batch() == [first]
    assert first.token in unwritten
    assert len(unwritten) == 1


def test_what_is_left_over_follows_in_the_next_turn(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    jobs = [enqueue() for _ in range(3)]
    worker = bench.worker(concurrency=3)
    for attempt in claimed(worker):
        worker.attempts.end(attempt)
        claim = attempt.claim
        end = Outcome(claim.id, claim.token, "succeed", claim.claimed_at, size=MOST_BYTES)
        worker.inbox.put(end)

    for done in range(1, 4):
        worker.pump.turn()
        assert [job(one).status for one in jobs].count("succeeded") == done
    assert worker.pump.settled


def test_a_result_that_cannot_be_encoded_fails_alone(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    """Handlers' results are looked at before; this is the net below."""
    deep, plain = enqueue(), enqueue()
    worker = bench.worker(concurrency=2)
    nested: list[Any] = []
    for _ in range(400):
        nested = [nested]
    for attempt in claimed(worker):
        worker.attempts.end(attempt)
        claim = attempt.claim
        result = nested if claim.id == deep else "plain"
        worker.inbox.put(Outcome(claim.id, claim.token, "succeed", claim.claimed_at, result=result))

    worker.pump.turn()
    worker.pump.turn()

    assert job(plain).status == "succeeded"
    assert (job(deep).status, job(deep).error_class) == ("failed", "OutcomeNotStorable")
    assert worker.pump.settled


def test_the_line_about_an_end_that_was_written_before_says_what_is_stored(
    bench: Bench, enqueue: Enqueue, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """A success was committed and its answer lost; what the handler's thread believed is wrong."""
    caplog.set_level("INFO", "queueapp.worker")
    enqueue()
    worker = bench.worker()
    [attempt] = claimed(worker)
    claim = attempt.claim
    end = Outcome(claim.id, claim.token, "succeed", claim.claimed_at)
    transitions.settle(session, [end], actor=worker.terms.actor)
    session.commit()
    worker.attempts.end(attempt)
    worker.inbox.put(end._replace(verb="retry", delay_s=1.0))

    worker.pump.turn()
    worker.teller.tell()

    assert worker.pump.settled
    [line] = [record.message for record in caplog.records if f"job {claim.id} " in record.message]
    assert " succeeded attempt 1/" in line


def test_after_a_statement_that_failed_what_has_ended_goes_without_a_claim(
    bench: Bench, enqueue: Enqueue, job: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have failed for its claim, and must not fail with it again and again."""
    first, second = enqueue(), enqueue()
    worker = bench.worker(concurrency=1)
    [attempt] = claimed(worker)
    finish(worker, attempt)

    with monkeypatch.context() as patch:

        def refuse(*_given: Any, slots: int, **_more: Any) -> None:
            raise OperationalError("SELECT", {}, TimeoutError(f"{slots} slots"))

        patch.setattr(transitions, "exchange", refuse)
        with pytest.raises(OperationalError):
            worker.pump.turn()

    worker.pump.turn()
    assert (job(first).status, job(second).status) == ("succeeded", "queued")
    worker.pump.turn()
    assert job(second).status == "running"


def test_after_a_lost_answer_the_claims_that_arrived_are_found(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    """Although the next statement with outcomes claims nothing."""
    first, second = enqueue(), enqueue()
    worker = bench.worker(concurrency=1)
    [attempt] = claimed(worker)
    finish(worker, attempt)
    with lost_answers(), pytest.raises(OperationalError):
        worker.pump.turn()
    assert (job(first).status, job(second).status) == ("succeeded", "running")

    worker.pump.turn()

    assert [held.claim.id for held in worker.attempts.leases()] == [second]
