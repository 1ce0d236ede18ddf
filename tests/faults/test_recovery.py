"""Holders that die or freeze: the job runs again after its lease, and no late word counts."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until
from tests.live.strictly import either_way

LEASE = ("--lease", "3", "--concurrency", "4")


def events_of(journey: Journey, job: int, event: str) -> list[Any]:
    return journey.rows(
        "SELECT * FROM job_events WHERE job_id = %(id)s AND event = %(event)s ORDER BY id",
        id=job,
        event=event,
    )


@either_way
def test_jobs_of_a_killed_worker_run_again_after_its_lease_or_have_failed(
    journey: Journey, order: tuple[str, ...]
) -> None:
    doomed = journey.work(*LEASE, *order)
    job = journey.enqueue_one("journey.gate")
    last = journey.enqueue_one("journey.gate", max_attempts=1)
    journey.wait_for_start(last)
    first = journey.wait_for_start(job)
    holder = journey.job(job).locked_by

    doomed.kill()
    journey.work(*LEASE, *order)
    again = journey.wait_for_start(job, attempt=2)
    journey.open(job, attempt=2)
    row = journey.wait_for_status(job, "succeeded")
    failed = journey.wait_for_status(last, "failed")

    assert (row.attempts, row.result["attempt"]) == (2, 2)
    assert again.mono - first.mono >= 3, "the lease was not waited for"
    [expired] = events_of(journey, job, "lease_expired")
    assert expired.data["holder"] == holder
    assert expired.actor.startswith("sweeper:")
    assert journey.events(job) == [
        "enqueued", "claimed", "lease_expired", "retry_scheduled", "claimed", "succeeded",
    ]  # fmt: skip
    assert (failed.attempts, failed.error_class) == (1, "LeaseLost")
    assert journey.events(last) == ["enqueued", "claimed", "lease_expired", "failed"]
    assert len(journey.ledger.starts(last)) == 1
    stand(journey)


def test_late_result_of_a_frozen_worker_is_refused_and_it_goes_on_working(
    journey: Journey,
) -> None:
    frozen = journey.work(*LEASE)
    job = journey.enqueue_one("journey.gate")
    first = journey.wait_for_start(job)
    second = journey.work(*LEASE)

    frozen.send(signal.SIGSTOP)
    again = journey.wait_for_start(job, attempt=2)
    journey.open(job, attempt=1)
    frozen.send(signal.SIGCONT)
    frozen.wait_until_it_says(rf"job {job} lease lost: the late result \(succeed\) was refused")
    owner = journey.job(job)
    journey.open(job, attempt=2)
    row = journey.wait_for_status(job, "succeeded")

    assert (first.pid, again.pid) == (frozen.pid, second.pid)
    assert (owner.status, f":{second.pid}:" in owner.locked_by) == ("running", True)
    assert (row.attempts, row.result) == (2, {"attempt": 2, "pid": second.pid})
    [late] = events_of(journey, job, "stale_write_rejected")
    assert f":{frozen.pid}:" in late.actor
    assert late.lease_token == events_of(journey, job, "claimed")[0].lease_token
    assert second.stop() == 0
    after = journey.enqueue_one("journey.tick")
    journey.wait_for_status(after, "succeeded")
    assert journey.ledger.starts(after)[0].pid == frozen.pid
    stand(journey, frozen=True)


def test_healthy_job_of_many_leases_runs_once(journey: Journey) -> None:
    journey.work("--lease", "1", "--concurrency", "16")
    jobs = journey.enqueue("journey.gate", count=16)
    for job in jobs:
        journey.wait_for_start(job)
    # Two that are idle would take any of them.
    journey.workers(2, "--lease", "1", "--concurrency", "16")
    claimed = {row.id: row for row in journey.rows("SELECT * FROM jobs")}

    def renewed() -> bool:
        ahead = {row.id: row.lease_expires_at for row in journey.rows("SELECT * FROM jobs")}
        return all((ahead[job] - claimed[job].lease_expires_at).total_seconds() > 4 for job in jobs)

    until(renewed, "every lease is renewed for over four leases")
    for job in jobs:
        journey.open(job)
    journey.wait_for_end(jobs)

    assert {row.attempts for row in journey.rows("SELECT attempts FROM jobs")} == {1}
    assert len(journey.ledger.starts()) == len(jobs)
    stand(journey)


@pytest.mark.slow
@either_way
def test_job_that_kills_its_process_starts_three_times_and_harms_no_other(
    journey: Journey, order: tuple[str, ...]
) -> None:
    good = journey.enqueue("journey.tick", count=20, max_attempts=10)
    poison = journey.enqueue_one("journey.exit", max_attempts=3, priority=1)

    def all_ended() -> bool:
        if not journey.processes.running("work"):
            journey.work("--lease", "1", "--concurrency", "2", *order, ready=False)
        open_ = "SELECT count(*) FROM jobs WHERE status IN ('queued', 'running')"
        return not journey.one(open_)

    until(all_ended, "restarted over and over, the worker brings all jobs to an end", within=90)

    row = journey.job(poison)
    assert (row.status, row.attempts, row.error_class) == ("failed", 3, "LeaseLost")
    assert len(journey.ledger.starts(poison)) == 3
    assert {journey.job(job).status for job in good} == {"succeeded"}
    # The process may die between the claim of a good job and its start.
    stand(journey, accepted=good, every_claim_started=False)
