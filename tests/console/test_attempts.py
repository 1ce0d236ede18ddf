"""The time line of a job, told from its ledger by the real verbs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.console.attempts import WIDTH, Attempt, attempts_of, lines_of
from queueapp.jobs import queries, transitions
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.status import Status
from tests.factories import HOLDER, claim_one, make_job, outcome

NOW = datetime(2026, 11, 29, 15, 0, tzinfo=UTC)


def told(session: Session, job_id: int) -> list[Attempt]:
    return attempts_of(queries.latest_events_of(session, job_id))


def settle(session: Session, job_id: int, verb: str, **fields: Any) -> None:
    claim = claim_one(session, job_id)
    transitions.settle(session, [outcome(claim, verb, **fields)], actor=HOLDER.name)


def test_a_job_that_waits_has_one_attempt_to_come(session: Session) -> None:
    job = make_job(session)

    [attempt] = told(session, job.id)

    assert (attempt.number, attempt.claimed_at, attempt.outcome) == (1, None, None)
    assert attempt.ready_at is not None


def test_each_claim_is_an_attempt_with_its_worker_and_outcome(session: Session) -> None:
    job = make_job(session)
    settle(session, job.id, "retry", delay_s=0, data={"error_class": "Oops", "run_ms": 7})
    settle(session, job.id, "succeed", data={"run_ms": 9})

    first, second = told(session, job.id)

    assert (first.number, first.outcome, first.error_class) == (1, "retry_scheduled", "Oops")
    assert (first.worker, first.run_ms) == (HOLDER.name, 7)
    assert (second.number, second.outcome, second.run_ms) == (2, "succeeded", 9)
    assert second.ready_at is not None
    assert first.ended_at is not None
    assert second.ready_at >= first.ended_at


def test_a_retry_scheduled_for_later_is_the_attempt_to_come(session: Session) -> None:
    job = make_job(session)
    settle(session, job.id, "retry", delay_s=600)

    first, to_come = told(session, job.id)

    assert first.outcome == "retry_scheduled"
    assert (to_come.number, to_come.claimed_at) == (2, None)
    assert to_come.ready_at is not None
    assert first.ended_at is not None
    assert to_come.ready_at > first.ended_at + timedelta(minutes=9)


def test_an_attempt_given_back_does_not_count(session: Session) -> None:
    job = make_job(session)
    settle(session, job.id, "release")

    released, to_come = told(session, job.id)

    assert (released.outcome, released.number, to_come.number) == ("released", 1, 1)


@pytest.mark.postgresql("pg_sleep")
def test_a_lost_lease_says_who_ended_it(session: Session) -> None:
    job = make_job(session)
    claim_one(session, job.id, replace(HOLDER, lease_s=0))
    session.execute(sa.text("SELECT pg_sleep(0.01)"))
    transitions.expire(session, actor="sweeper:1", backoff=Backoff())

    lost = told(session, job.id)[0]

    assert lost.outcome is not None
    assert "lease expired" in lost.notes
    assert "ended by sweeper:1" in lost.notes


def test_a_persons_retry_begins_a_new_life(session: Session) -> None:
    job = make_job(session, Status.FAILED)
    transitions.requeue(session, [job.id], actor="user:ana")

    failed, to_come = told(session, job.id)

    assert (failed.outcome, failed.number) == ("failed", 1)
    assert (to_come.number, to_come.claimed_at) == (1, None)


def test_a_cancelled_job_has_no_attempt_to_come(session: Session) -> None:
    assert told(session, make_job(session, Status.CANCELLED).id) == []


def test_a_running_job_that_was_asked_to_stop_says_by_whom(session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    transitions.cancel(session, [job.id], actor="user:ana")

    [attempt] = told(session, job.id)

    assert attempt.outcome is None
    assert attempt.notes == ["asked to stop by user:ana"]


def test_a_history_without_its_beginning_begins_where_it_is(session: Session) -> None:
    job = make_job(session, Status.FAILED)
    events = queries.latest_events_of(session, job.id)

    [attempt] = attempts_of(events[1:])
    assert (attempt.ready_at, attempt.outcome) == (None, "failed")
    assert attempts_of(events[2:]) == []


def test_odd_data_in_an_event_is_passed_over() -> None:
    event = SimpleNamespace(
        event="enqueued", from_status=None, to_status="queued", data=[1], created_at=NOW,
        actor="app", attempt=0, lease_token=None, reason=None,
    )  # fmt: skip
    odd = SimpleNamespace(**{**vars(event), "data": {"available_at": "soon"}})

    assert [a.ready_at for a in attempts_of([event])] == [NOW]
    assert [a.ready_at for a in attempts_of([odd])] == [NOW]


def test_the_bars_of_all_attempts_share_one_scale() -> None:
    def at(seconds: float) -> datetime:
        return NOW + timedelta(seconds=seconds)

    first = Attempt(1, at(0), at(10), at(20), outcome="retry_scheduled")
    second = Attempt(2, at(50), at(60), None)
    one, two = lines_of([first, second], at(100), at(60))

    assert one.waiting is not None
    assert one.running is not None
    assert two.running is not None
    assert two.backoff is not None
    assert (one.waiting.x, one.waiting.width) == (0, WIDTH / 10)
    assert (one.running.x, one.running.width) == (WIDTH / 10, WIDTH / 10)
    assert (two.running.x, two.running.width) == (WIDTH * 0.6, WIDTH * 0.4)
    assert (two.backoff.x, two.backoff.width) == (WIDTH * 0.2, WIDTH * 0.3)
    assert (one.wait_s, two.run_s) == (10, 40)


def test_the_shortest_run_is_drawn_and_stays_within_the_scale() -> None:
    attempt = Attempt(1, NOW, NOW + timedelta(hours=1), NOW + timedelta(hours=1, milliseconds=1))

    [line] = lines_of([attempt], NOW)

    assert line.running is not None
    assert line.running.width >= 1
    assert line.running.x + line.running.width <= WIDTH


def test_no_attempts_draw_no_lines() -> None:
    assert lines_of([], NOW) == []


def after(milliseconds: float) -> datetime:
    return NOW + timedelta(milliseconds=milliseconds)


def test_the_block_is_the_handlers_own_time_and_the_rest_is_at_its_worker() -> None:
    """A claim that waited in the line of its worker did not run from start to finish."""
    attempt = Attempt(1, NOW, NOW, after(1_000), outcome="succeeded", run_ms=0.4)

    [line] = lines_of([attempt], after(5_000))

    assert line.held is not None
    assert line.running is not None
    assert (line.held.x, line.held.width) == (0, WIDTH)
    assert line.running.width < WIDTH / 100
    # It ended when that was written, as far as anybody knows.
    assert line.running.x + line.running.width == WIDTH
    assert (line.run_s, line.held_s, line.is_at_most) == (0.0004, 1, False)


def test_the_last_attempt_begins_where_the_job_says() -> None:
    first = Attempt(1, NOW, after(10), after(100), outcome="retry_scheduled", run_ms=20)
    last = Attempt(2, after(100), after(200), after(1_000), outcome="succeeded", run_ms=100)

    one, two = lines_of([first, last], after(5_000), after(600))

    assert one.running is not None
    assert two.running is not None
    assert (one.running.x, one.running.width) == (80, 20)
    assert (two.running.x, two.running.width) == (600, 100)


def test_an_attempt_that_has_not_begun_does_not_run() -> None:
    claimed = Attempt(1, NOW, after(100))

    [line] = lines_of([claimed], after(1_000))
    [begun] = lines_of([claimed], after(1_000), after(600))
    # The line of the ledger may be younger than the row.
    [at_once] = lines_of([claimed], after(1_000), after(99))

    assert line.held is not None
    assert (line.held.x, line.held.width) == (100, 900)
    assert (line.running, line.run_s) == (None, None)
    assert begun.running is not None
    assert (begun.running.x, begun.running.width, begun.run_s) == (600, 400, 0.4)
    assert at_once.run_s == 0.9


def test_of_an_end_that_nobody_measured_the_time_is_an_upper_bound() -> None:
    lost = Attempt(1, NOW, after(100), after(1_000), outcome="lease_expired")

    [line] = lines_of([lost], after(2_000))

    assert line.running is not None
    assert (line.running.x, line.running.width) == (100, 900)
    assert (line.run_s, line.held_s, line.is_at_most) == (0.9, 0.9, True)
