"""One claim run: whatever the handler does becomes the right outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.jobs import audit
from queueapp.jobs.models import Job
from queueapp.jobs.queries import events_of
from tests.worker.conftest import Bench, Enqueue

Read = Callable[[int], Job]


def last_event(session: Session, job_id: int) -> Any:
    return events_of(session, job_id)[-1]


def clean(session: Session) -> bool:
    *_, (_, report) = audit.check(session)
    return report.clean


@pytest.mark.parametrize("name", ["set", "bytes", "nan", "loop", "tuple_keys", "file", "huge"])
def test_a_result_that_cannot_be_kept_is_left_out_and_the_job_succeeds(
    bench: Bench, enqueue: Enqueue, job: Read, name: str
) -> None:
    job_id = enqueue("test.returns", {"name": name})

    bench.run_one(bench.worker())

    assert job(job_id).status == "succeeded"
    assert list(job(job_id).result) == ["$omitted"]


def test_a_plain_result_is_stored_as_it_is(bench: Bench, enqueue: Enqueue, job: Read) -> None:
    job_id = enqueue("test.returns", {"name": "plain"})

    bench.run_one(bench.worker())

    assert job(job_id).result == {"ok": [1, None, "żółć"]}


def test_nul_and_surrogates_in_a_result_are_made_visible(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    job_id = enqueue("test.returns", {"name": "nul"})

    bench.run_one(bench.worker())

    assert job(job_id).result == {"a\\x00b": ["\\ud800"]}


@pytest.mark.parametrize(
    "name", ["value", "exit", "interrupt", "generator", "cancelled", "odd", "nul", "huge"]
)
def test_whatever_a_handler_raises_is_an_ordinary_failure(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session, name: str
) -> None:
    job_id = enqueue("test.raises", {"name": name})

    bench.run_one(bench.worker())

    row = job(job_id)
    assert (row.status, row.attempts) == ("queued", 1)
    assert row.error_class
    assert row.error_fingerprint
    assert len(row.error_message or "") < 10_000
    event = last_event(session, job_id)
    assert event.event == "retry_scheduled"
    assert "raises" in event.data["traceback"]
    assert clean(session)


def test_the_last_attempt_ends_the_job(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue("test.raises", {"name": "value"}, max_attempts=1)

    bench.run_one(bench.worker())

    assert job(job_id).status == "failed"
    assert last_event(session, job_id).reason == "attempts_used_up"


def test_fail_ends_the_job_whatever_attempts_are_left(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue("test.raises", {"name": "fail"})

    bench.run_one(bench.worker())

    assert (job(job_id).status, job(job_id).error_message) == ("failed", "never again")
    assert last_event(session, job_id).reason == "permanent"


def test_retry_replaces_the_backoff(bench: Bench, enqueue: Enqueue, session: Session) -> None:
    job_id = enqueue("test.raises", {"name": "retry"})

    bench.run_one(bench.worker())

    wait = session.scalar(
        text("SELECT extract(epoch FROM available_at - clock_timestamp()) FROM jobs")
    )
    assert 60 < float(wait or 0) <= 77
    assert last_event(session, job_id).reason == "asked_to_retry"


def test_defer_gives_the_attempt_back(bench: Bench, enqueue: Enqueue, job: Read) -> None:
    job_id = enqueue("test.defers")

    bench.run_one(bench.worker())

    row = job(job_id)
    assert (row.status, row.attempts, row.handbacks) == ("queued", 0, 1)


def test_an_unknown_kind_waits_and_uses_no_attempt(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue("of.tomorrow")

    bench.run_one(bench.worker())

    row = job(job_id)
    assert (row.status, row.attempts) == ("queued", 0)
    assert last_event(session, job_id).reason == "unknown_kind"


def test_a_stored_payload_that_no_longer_fits_ends_the_job_and_names_the_field(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue("test.raises", {"nome": "value"})

    bench.run_one(bench.worker())

    assert job(job_id).status == "failed"
    assert last_event(session, job_id).reason == "invalid_payload"
    assert "/payload/" in (job(job_id).error_message or "")


def test_effects_in_the_handlers_session_are_committed_with_the_success(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue("test.writes", {"note": "done with it"})
    worker = bench.worker()

    bench.run_one(worker)

    assert (job(job_id).status, job(job_id).result) == ("succeeded", "done with it")
    assert session.scalar(text("SELECT reason FROM job_events WHERE scope = 'op:test'"))
    assert worker.pump.settled
    assert clean(session)


def test_effects_in_the_handlers_session_are_undone_when_it_fails(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue("test.writes", {"note": "half-way", "fails": True})

    bench.run_one(bench.worker())

    assert job(job_id).attempts == 1
    assert not session.scalar(text("SELECT count(*) FROM job_events WHERE scope = 'op:test'"))


def test_effects_in_the_handlers_session_are_undone_when_the_lease_was_lost(
    bench: Bench, enqueue: Enqueue, job: Read, session: Session
) -> None:
    job_id = enqueue("test.writes", {"note": "too late"})
    worker = bench.worker()
    worker.inbox.wake()
    worker.pump.turn()
    session.execute(text("UPDATE jobs SET lease_token = gen_random_uuid()"))
    session.commit()

    attempt = worker.slots.todo.get()
    worker.attempts.begin(attempt)
    worker.slots.run(attempt, 0)
    worker.pump.claiming = False
    worker.pump.turn()

    assert job(job_id).status == "running"
    assert not session.scalar(text("SELECT count(*) FROM job_events WHERE scope = 'op:test'"))
    assert last_event(session, job_id).event == "stale_write_rejected"
    assert worker.pump.settled


def test_a_spoiled_session_does_not_reach_the_next_job_of_the_thread(
    bench: Bench, enqueue: Enqueue, job: Read
) -> None:
    enqueue("test.spoils")
    next_id = enqueue("test.uses_session")

    bench.run_one(bench.worker())

    assert (job(next_id).status, job(next_id).result) == ("succeeded", 42)
