"""Signals to a worker: running jobs finish or are handed back unused, and it leaves in time."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from queueapp.commands import children
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import ROOT, until

ASLEEP = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'PgSleep'
"""


def test_signals_in_the_middle_of_a_job_hand_it_back_unused(journey: Journey) -> None:
    job = journey.enqueue_one("journey.gate")
    # The third worker would wait for a minute. A platform may repeat itself: that says nothing new.
    # A Ctrl-C after it is a person in a hurry.
    hurried = [signal.SIGTERM, signal.SIGTERM, signal.SIGINT]
    rounds = [("0", [signal.SIGTERM]), ("1", [signal.SIGINT]), ("60", hurried)]
    for count, (grace, signals) in enumerate(rounds, start=1):
        worker = journey.work("--grace", grace)
        journey.wait_for_more_starts(count)

        for heard, number in enumerate(signals, start=1):
            worker.send(number)
            worker.wait_until_it_says(rf"(?s)( received.*){{{heard}}}")
        assert ("again: hurrying" in worker.said()) == (signals == hurried)
        status = worker.wait(within=12)

        row = journey.job(job)
        assert status == 0
        assert (row.status, row.attempts, row.handbacks) == ("queued", 0, count)
        assert row.available_at <= journey.one("SELECT clock_timestamp()")
        stopped = "SELECT count(*) FROM job_events WHERE event = 'worker_stopped'"
        assert journey.one(stopped) == count
        why = (
            "SELECT reason FROM job_events WHERE event = 'worker_stopped' ORDER BY id DESC LIMIT 1"
        )
        assert journey.one(why) == signals[0].name

    journey.work()
    journey.open(job)
    assert journey.wait_for_status(job, "succeeded").attempts == 1
    released = journey.rows("SELECT reason, attempt FROM job_events WHERE event = 'released'")
    assert released == [("shutdown", 1)] * 3
    # Handing back comes last: who starts the job next must not meet the thread that did not stop.
    said = "SELECT event FROM job_events WHERE event IN ('released', 'worker_stopped') ORDER BY id"
    assert journey.rows(said) == [("worker_stopped",), ("released",)] * 3
    # The threads that a worker left behind died with it: none overlapped with the next.
    stand(journey)


def test_polite_job_is_asked_to_stop_after_the_grace_and_handed_back(journey: Journey) -> None:
    worker = journey.work("--grace", "0.5")
    job = journey.enqueue_one("journey.polite")
    journey.wait_for_start(job)

    assert worker.stop(within=10) == 0

    assert len(journey.ledger.ends(job)) == 1
    row = journey.job(job)
    assert (row.status, row.attempts) == ("queued", 0)
    assert "did not stop in time" not in worker.said()
    stand(journey)


def test_job_shorter_than_the_grace_finishes(journey: Journey) -> None:
    worker = journey.work("--grace", "20")
    job = journey.enqueue_one("journey.gate")
    journey.wait_for_start(job)

    worker.send(signal.SIGTERM)
    worker.wait_until_it_says("SIGTERM received")
    later = journey.enqueue_one("journey.tick")
    journey.open(job)
    status = worker.wait(within=10)

    assert status == 0
    assert journey.job(job).status == "succeeded"
    assert journey.job(later).status == "queued", "a stopping worker claimed a job"
    stand(journey)


# That the grace is not waited for shows above too, once the last job has ended.
@pytest.mark.slow
def test_idle_worker_leaves_at_once(journey: Journey) -> None:
    worker = journey.work()

    began = time.monotonic()
    status = worker.stop()

    assert status == 0
    assert time.monotonic() - began < 10, "it waited for the grace"
    assert "stopped" in worker.said().splitlines()[-1]
    stand(journey)


@pytest.mark.slow
def test_signal_amid_a_stream_of_short_jobs_loses_no_claim(journey: Journey) -> None:
    jobs = journey.enqueue("journey.tick", count=1_000)
    for number in (signal.SIGTERM, signal.SIGINT):
        begun = len(journey.ledger.starts())
        worker = journey.work("--concurrency", "4", "--grace", "5")
        journey.wait_for_more_starts(begun + 50)

        assert worker.stop(number, within=10) == 0

        assert journey.rows("SELECT id FROM jobs WHERE status = 'running'") == []
    journey.work("--concurrency", "4")
    journey.wait_for_end(jobs)

    assert journey.rows("SELECT status, attempts, count(*) FROM jobs GROUP BY 1, 2") == [
        ("succeeded", 1, len(jobs))
    ]
    assert len(journey.ledger.starts()) == len(jobs)
    # What was claimed and had not begun when the signal came was handed back.
    stand(journey, every_claim_started=False)


def test_claim_under_way_when_the_signal_comes_is_not_left_behind(
    journey: Journey, slow_updates: Callable[[float], None]
) -> None:
    slow_updates(1)
    worker = journey.work("--grace", "20")
    job = journey.enqueue_one("journey.tick")
    until(lambda: journey.one(ASLEEP), "the claim is under way")

    assert worker.stop() == 0

    row = journey.job(job)
    assert row.status in ("succeeded", "queued"), "nobody will run it before its lease is over"
    assert row.attempts == len(journey.ledger.starts(job))
    stand(journey, every_claim_started=False)


def test_documented_commands_pass_the_signal_on_to_what_they_start(journey: Journey) -> None:
    lines = children.procfile(ROOT)
    processes = journey.processes
    alone = processes.start_line("work", lines["worker"])
    several = processes.start_line("work", lines["worker"], QUEUE_PROCESSES="2")
    web = processes.start_line("web", lines["web"], PORT="0", WEB_CONCURRENCY="1")
    until(lambda: journey.workers_seen() == 3, "three workers are at work", within=90)
    web.wait_until_it_says("Listening at")

    for process, answer in (
        (alone, "SIGTERM received"), (several, "SIGTERM received"), (web, "Handling signal: term"),
    ):  # fmt: skip
        # To the process that the platform has started, which is a shell's unless it has stepped
        # aside.
        process.send(signal.SIGTERM)
        process.wait_until_it_says(answer, within=5)
    assert [process.wait() for process in (alone, several, web)] == [0, 0, 0]
    stand(journey)


@pytest.mark.parametrize("script", ["demo", "test"])
def test_scripts_step_aside_for_what_they_start(script: str) -> None:
    lines = (ROOT / "bin" / script).read_text().splitlines()

    assert lines[-1].startswith("exec ")
