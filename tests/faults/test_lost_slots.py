"""Handlers that never return: given up, fenced off, told of, and gone with their process."""

from __future__ import annotations

import re

import pytest

from queueapp.worker.supervision.statuses import REPLACE
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import Process, until

MISBEHAVING = "tests.live.kinds,tests.live.misbehaving"
WRITTEN = "SELECT reason FROM job_events WHERE scope = 'op:test'"
SEEN = """
SELECT (data->>'lost')::int AS lost FROM job_events WHERE event = 'worker_seen' ORDER BY id
"""
IN_TIME = {"timeout_s": 1, "max_attempts": 3}


def wait_for_lost(journey: Journey, worker: Process, jobs: list[int]) -> None:
    """Wait until the log and the ledger say that the slots of just these jobs are lost.

    Sooner than a renewal at the usual lease would bring it to light.
    """
    told = "each slot is told to be lost, once"
    until(lambda: lost_by(worker) == sorted(jobs), told, within=18)
    until(lambda: journey.rows(SEEN)[-1].lost == len(jobs), "the worker says so in the ledger")


def lost_by(worker: Process) -> list[int]:
    return sorted(int(job) for job in re.findall(r"slot lost: job (\d+) ", worker.said()))


def end_sleepers(journey: Journey) -> None:
    """A statement goes on in the server when its client has died."""
    journey.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event = 'PgSleep'"
    )


@pytest.mark.slow
def test_handler_that_never_returns_is_given_up_and_its_slot_is_seen_to_be_lost(
    journey: Journey,
) -> None:
    worker = journey.work("--concurrency", "13", "--grace", "1", QUEUE_HANDLERS=MISBEHAVING)
    names = ("socket", "event", "sleep", "c", "database", "gate")
    hung = {name: journey.enqueue_one("journey.hangs", {"how": name}, **IN_TIME) for name in names}
    endless = journey.enqueue_one("journey.hangs", {"how": "sleep"}, timeout_s=0)
    wait_for_lost(journey, worker, list(hung.values()))

    good = journey.enqueue("journey.tick", count=50)
    journey.wait_for_end(good)
    for job in hung.values():
        row = journey.wait_for_status(job, "succeeded")
        assert (row.attempts, row.result["attempt"]) == (2, 2)
    # A thread that comes back after all frees its slot, and its result is for nobody.
    journey.open(hung["gate"], attempt=1)
    until(lambda: journey.rows(SEEN)[-1].lost == len(hung) - 1, "a slot is free again")
    assert worker.stop(within=20) == 0

    journey.work("--lease", "2", QUEUE_HANDLERS=MISBEHAVING)
    assert journey.wait_for_status(endless, "running").handbacks == 1
    for job in hung.values():
        assert journey.job(job).result["attempt"] == 2
        events = [event for event in journey.events(job) if event != "stale_write_rejected"]
        assert events == ["enqueued", "claimed", "retry_scheduled", "claimed", "succeeded"]
        timed_out = "SELECT data->>'error_class' FROM job_events WHERE job_id = %(id)s AND reason"
        assert journey.one(f"{timed_out} = 'timed_out'", id=job) == "JobTimeout"
    assert journey.rows(WRITTEN) == []
    end_sleepers(journey)
    stand(journey, frozen=True)


@pytest.mark.slow
def test_handler_that_holds_its_own_row_for_ever_is_given_up_and_freed_with_its_process(
    journey: Journey,
) -> None:
    worker = journey.work("--concurrency", "4", "--lease", "2", QUEUE_HANDLERS=MISBEHAVING)
    job = journey.enqueue_one("journey.hangs", {"how": "row"}, **IN_TIME)
    wait_for_lost(journey, worker, [job])
    journey.wait_for_end(journey.enqueue("journey.tick", count=50))
    assert journey.job(job).status == "running"
    assert worker.stop(within=20) == 0

    journey.work("--lease", "2", QUEUE_HANDLERS=MISBEHAVING)
    assert journey.wait_for_status(job, "succeeded").attempts == 2
    stand(journey, frozen=True)


@pytest.mark.slow
def test_process_of_which_half_the_slots_are_lost_is_to_be_replaced(journey: Journey) -> None:
    worker = journey.work(
        "--concurrency", "4", "--lease", "2", "--grace", "1", QUEUE_HANDLERS=MISBEHAVING
    )
    hung = journey.enqueue("journey.hangs", {"how": "sleep"}, count=2, **IN_TIME)

    status = worker.wait()

    assert status == REPLACE
    assert lost_by(worker) == hung
    assert "2 of 4 slots are lost" in worker.said()
    journey.work("--lease", "2", QUEUE_HANDLERS=MISBEHAVING)
    journey.wait_for_end(hung)
    assert [journey.job(job).status for job in hung] == ["succeeded"] * 2
    stand(journey, frozen=True)
