"""Somebody's forgotten transaction holds a row: that job waits, all others go on."""

from __future__ import annotations

import time

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until

# Of each other's they may wait a moment, such as while one extends a table.
WAITING_FOR_US = """
SELECT count(*) FROM pg_stat_activity worker
WHERE worker.datname = current_database() AND worker.application_name LIKE 'queueapp-%%'
  AND EXISTS (
    SELECT FROM pg_stat_activity us
    WHERE us.pid = ANY(pg_blocking_pids(worker.pid))
      AND us.application_name NOT LIKE 'queueapp-%%')
"""

OVERDUE = "SELECT count(*) FROM jobs WHERE lease_expires_at < clock_timestamp()"
LONG_OVERDUE = """
SELECT count(*) FROM jobs WHERE lease_expires_at < clock_timestamp() - interval '2 s'
"""


def run_short_jobs(journey: Journey, count: int) -> None:
    """Have ``count`` short jobs done, the workers' statements watched meanwhile."""
    jobs = journey.enqueue("journey.tick", count=count)

    def ended() -> bool:
        assert journey.one(WAITING_FOR_US) == 0, "a worker waits for the locked row"
        return bool(journey.job(jobs[-1]).status == "succeeded")

    until(ended, "the other jobs go on")
    journey.wait_for_end(jobs)


def run_beside_a_locked_job(journey: Journey, *, hold_s: float) -> None:
    # Nobody can renew the lease meanwhile: it is to be there still when the outcome is written.
    journey.workers(2, "--concurrency", "4", "--lease", "5m")
    job = journey.enqueue_one("journey.gate")
    journey.wait_for_start(job)

    with journey.locked(job):
        until_ = time.monotonic() + hold_s
        journey.open(job)
        until(lambda: journey.ledger.ends(job), "the handler returns")
        run_short_jobs(journey, 500)
        while time.monotonic() < until_:
            run_short_jobs(journey, 500)
        assert journey.job(job).status == "running"

    row = journey.wait_for_status(job, "succeeded", within=20)
    assert row.attempts == 1
    assert len(journey.ledger.starts(job)) == 1
    stand(journey)


@pytest.mark.slow
def test_all_other_jobs_go_on_while_a_running_row_is_locked(journey: Journey) -> None:
    run_beside_a_locked_job(journey, hold_s=0)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_all_other_jobs_go_on_while_a_running_row_is_locked_for_a_minute(
    journey: Journey,
) -> None:
    run_beside_a_locked_job(journey, hold_s=62)


@pytest.mark.slow
def test_locked_row_at_the_head_of_the_queue_stops_nobody(journey: Journey) -> None:
    first = journey.enqueue_one("journey.tick", priority=100)
    web = journey.web()

    with journey.locked(first):
        journey.workers(2, "--concurrency", "4")
        run_short_jobs(journey, 300)
        for page in ("/api/jobs", f"/api/jobs/{first}", "/api/stats", "/", "/jobs", "/events"):
            assert web.ask("GET", page).status == 200
        # Neither sweep nor retention waits for it.
        for words, said in (
            ("jobs sweep", "0 jobs taken"),
            ("purge --succeeded 0", "300 succeeded"),
        ):
            command = journey.processes.start(words, "flask", "--app", "wsgi", *words.split())
            assert command.wait() == 0, command.said()
            assert said in command.said()
        assert journey.job(first).status == "queued"

    row = journey.wait_for_status(first, "succeeded", within=20)
    assert row.attempts == 1
    stand(journey)


def test_rows_locked_past_their_leases_are_settled_and_renewed_once_free(
    journey: Journey,
) -> None:
    journey.workers(2, "--concurrency", "4", "--lease", "2")
    jobs = journey.enqueue("journey.gate", count=8)
    for job in jobs:
        journey.wait_for_start(job)
    done, at_work = jobs[::2], jobs[1::2]

    with journey.engine.connect() as connection:
        connection.exec_driver_sql("SELECT FROM jobs FOR UPDATE")
        for job in done:
            journey.open(job)
        until(lambda: len(journey.ledger.ends()) == len(done), "half of the handlers return")
        until(lambda: journey.one(LONG_OVERDUE) == len(jobs), "every lease is long over")
        connection.rollback()
    until(lambda: not journey.one(OVERDUE), "no lease is over any more")
    for job in at_work:
        journey.open(job)
    journey.wait_for_end(jobs)

    assert {journey.job(job).attempts for job in jobs} == {1}
    assert len(journey.ledger.starts()) == len(jobs)
    stand(journey)
