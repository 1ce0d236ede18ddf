"""What ``flask work`` is told, by options, by notifications and by an operator's switches."""

from __future__ import annotations

import time

import pytest

from queueapp.jobs import control
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until

LISTENING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'queueapp-listen%%'
  AND query LIKE 'LISTEN%%' AND state = 'idle'
"""


def test_drain_runs_what_is_due_and_exits_though_a_retry_is_scheduled(journey: Journey) -> None:
    jobs = journey.enqueue("journey.tick", count=50)
    flaky = journey.enqueue_one("journey.flaky", {"fail_first": 1})
    later = journey.enqueue_one("journey.tick", delay_s=3600)

    worker = journey.work("--drain", ready=False, QUEUE_BACKOFF_BASE="1h")
    status = worker.wait()

    assert status == 0
    assert {journey.job(job).status for job in jobs} == {"succeeded"}
    retried = journey.job(flaky)
    assert (retried.status, retried.attempts) == ("queued", 1)
    assert journey.ledger.starts(later) == []
    stand(journey)


def test_drain_of_an_empty_queue_exits_at_once(journey: Journey) -> None:
    worker = journey.work("--drain", ready=False)
    worker.wait_until_it_says("worker .*: 10 threads")

    # Less than the thirty seconds after which the pump looks even if nothing wakes it.
    assert worker.wait(within=9) == 0
    stand(journey)


def test_kinds_takes_only_those(journey: Journey) -> None:
    other = journey.enqueue_one("journey.flaky", {"fail_first": 0}, priority=10)
    wanted = journey.enqueue("journey.tick", count=5)

    worker = journey.work("--kinds", "journey.tick,demo.echo", "--drain", ready=False)
    status = worker.wait()

    assert status == 0
    assert {journey.job(job).status for job in wanted} == {"succeeded"}
    assert journey.events(other) == ["enqueued"]
    stand(journey)


def test_worker_without_threads_sweeps_but_runs_nothing(journey: Journey) -> None:
    doomed = journey.work("--lease", "1")
    lost = journey.enqueue_one("journey.gate", max_attempts=1)
    journey.wait_for_start(lost)
    doomed.kill()

    keeper = journey.work("--concurrency", "0")
    waiting = journey.enqueue_one("journey.tick")
    row = journey.wait_for_status(lost, "failed")

    assert row.error_class == "LeaseLost"
    assert journey.job(waiting).status == "queued"
    assert keeper.stop() == 0
    assert journey.events(waiting) == ["enqueued"]
    stand(journey)


def test_lone_job_starts_by_notification_long_before_the_next_poll(journey: Journey) -> None:
    journey.work(QUEUE_POLL="30s")
    until(lambda: journey.one(LISTENING) == 1, "the worker listens")

    waits = []
    for _ in range(5):
        made = time.monotonic()
        job = journey.enqueue_one("journey.tick")
        waits.append(journey.wait_for_start(job).mono - made)
        journey.wait_for_status(job, "succeeded")

    assert max(waits) < 1
    stand(journey)


def test_job_starts_by_poll_when_no_notification_comes(journey: Journey) -> None:
    journey.work(QUEUE_POOLER="1")

    job = journey.enqueue_one("journey.tick")

    journey.wait_for_status(job, "succeeded", within=3)
    assert journey.one(LISTENING) == 0
    stand(journey)


def test_scheduled_job_starts_when_it_is_due(journey: Journey) -> None:
    journey.work(QUEUE_POLL="1.5s")
    # Two polls apart: each look tells the worker of the next due time only.
    jobs = [journey.enqueue_one("journey.tick", delay_s=delay) for delay in (3.6, 7.2)]

    for job in jobs:
        journey.wait_for_status(job, "succeeded")

    late = [
        journey.ledger.starts(job)[0].at - journey.job(job).available_at.timestamp() for job in jobs
    ]
    assert min(late) >= 0
    assert max(late) < 0.75, f"seconds late: {late}"
    stand(journey)


def test_pause_stops_all_starts_within_two_seconds_and_resume_lets_them_go_on(
    journey: Journey,
) -> None:
    journey.workers(2, "--concurrency", "2", QUEUE_POLL="1.5s")
    jobs = journey.enqueue("journey.tick", {"ms": 20}, count=1_000)
    journey.wait_for_more_starts(20)

    with journey.engine.begin() as connection:
        control.pause(connection, actor="user:ana", reason="a look at it")
    paused = time.time()
    more = journey.enqueue("journey.tick", count=5)
    # An absence can only be watched for a time: long enough for two polls after the two seconds.
    time.sleep(5)
    starts = journey.ledger.starts()

    assert len(starts) < len(jobs), "the queue ran dry before the pause could show"
    assert max(line.at for line in starts) - paused < 2
    assert journey.rows("SELECT id FROM jobs WHERE status = 'running'") == []
    with journey.engine.begin() as connection:
        control.resume(connection, actor="user:ana")
    journey.wait_for_end(jobs + more)
    stand(journey)


@pytest.mark.slow
def test_hold_on_a_kind_parks_its_waiting_jobs_and_brings_them_back(journey: Journey) -> None:
    journey.workers(2, "--concurrency", "2")
    with journey.engine.begin() as connection:
        control.hold_kind(connection, "journey.flaky", actor="user:ana", reason="it is broken")
    parked = journey.enqueue("journey.flaky", {"fail_first": 0}, count=700, delay_s=1)
    others = journey.enqueue("journey.tick", count=50)

    of_kind = "SELECT count(*) FROM jobs WHERE kind = 'journey.flaky' AND status = %(status)s"
    until(lambda: journey.one(of_kind, status="held") == len(parked), "the kind's jobs are held")
    journey.wait_for_end(others)

    assert not any(journey.ledger.starts_by_job()[job] for job in parked)
    with journey.engine.begin() as connection:
        control.unhold_kind(connection, "journey.flaky", actor="user:ana")
    journey.wait_for_end(parked)
    assert journey.one(of_kind, status="succeeded") == len(parked)
    assert journey.events(parked[0]) == ["enqueued", "held", "unheld", "claimed", "succeeded"]
    stand(journey)


def test_options_that_cannot_work_are_refused_with_the_reason(journey: Journey) -> None:
    unknown = journey.work("--kinds", "no.such", ready=False)
    idle = journey.work("--drain", "--concurrency", "0", ready=False)

    for worker, reason in (unknown, "no handler for no.such"), (idle, "--drain needs threads"):
        assert worker.wait() == 2
        assert reason in worker.said()
        assert "Traceback" not in worker.said()
    stand(journey)
