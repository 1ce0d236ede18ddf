"""``flask work --processes N``: what dies comes back, the rest goes on, and all of it ends in time.

A supervised worker is a group of processes: the supervisor, and children that it names in its log.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import Process, until
from tests.live.strictly import either_way

# Most of it waits for processes to start again, one after the other.
pytestmark = pytest.mark.timeout(240)


def supervised(journey: Journey, processes: int, *options: str, **settings: str) -> Process:
    """Start it and wait until every child is at work."""
    seen = journey.workers_seen()
    options = (f"--processes={processes}", *options)
    process = journey.work(*options, ready=False, **settings)
    until(lambda: journey.workers_seen() >= seen + processes, "all children are at work", 60)
    return process


def started(process: Process) -> list[int]:
    """The children that there have been, oldest first."""
    return [int(pid) for pid in re.findall(r"started as pid (\d+)", process.said())]


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def deaths_of(journey: Journey, job: int) -> list[tuple[str, bool, int]]:
    rows = journey.rows(
        "SELECT data FROM job_events WHERE job_id = %(id)s AND event = 'lease_expired' ORDER BY id",
        id=job,
    )
    return [(row.data["died"], row.data["crashed"], row.data["suspects"]) for row in rows]


def end_of(journey: Journey, job: int) -> tuple[str, str]:
    [row] = journey.rows(
        "SELECT event, reason FROM job_events WHERE job_id = %(id)s ORDER BY id DESC LIMIT 1",
        id=job,
    )
    return row.event, row.reason


@pytest.mark.slow
@either_way
def test_job_that_kills_its_process_fails_after_three_times_and_harms_no_other(
    journey: Journey, order: tuple[str, ...]
) -> None:
    # One thread a process: the gated job keeps one of them to itself, the lease outlasts the test.
    group = supervised(journey, 2, "--concurrency=1", "--lease=10m", "--grace=20", *order)
    long = journey.enqueue_one("journey.gate")
    apart = journey.wait_for_start(long).pid
    poison = journey.enqueue_one("journey.exit", max_attempts=50, priority=1)
    good = journey.enqueue("journey.tick", count=20)

    row = journey.wait_for_status(poison, "failed", within=100)
    journey.wait_for_end(good)

    assert (row.attempts, row.error_class) == (3, "LeaseLost")
    assert "exit status 1" in row.error_message
    assert end_of(journey, poison) == ("failed", "killed_its_worker")
    assert deaths_of(journey, poison) == [("exit status 1", True, 1)] * 3
    assert len(journey.ledger.starts(poison)) == 3
    done = journey.rows("SELECT DISTINCT status, attempts FROM jobs WHERE kind = 'journey.tick'")
    assert done == [("succeeded", 1)]
    assert re.search(
        r"worker process \d \(pid \d+\) ended after \d+s: exit status 1, again in", group.said()
    )

    # Everybody hears the platform's signal, and hears it again: the gated job may finish.
    for _ in range(2):
        group.send_to_all(signal.SIGTERM)
        group.wait_until_it_says("SIGTERM received")
    until(lambda: group.said().count("SIGTERM received") >= 3, "child and supervisor heard it")
    journey.open(long)
    assert group.wait() == 0, group.said()
    finished = journey.job(long)
    assert (finished.status, finished.attempts, finished.result["pid"]) == ("succeeded", 1, apart)
    stand(journey)


def test_killed_child_is_replaced_its_job_recovered_at_once_and_nobody_blamed(
    journey: Journey,
) -> None:
    group = supervised(journey, 2, "--concurrency=1", "--lease=10m", "--grace=20")
    jobs = journey.enqueue("journey.gate", count=2, max_attempts=5)
    first, second = (journey.wait_for_start(job).pid for job in jobs)

    for attempt in range(1, 4):
        os.kill(journey.wait_for_start(jobs[0], attempt).pid, signal.SIGKILL)
    again = journey.wait_for_start(jobs[0], attempt=4)

    # Three deaths, all from outside: the job is not to blame.
    assert deaths_of(journey, jobs[0]) == [("SIGKILL", False, 1)] * 3
    assert (journey.job(jobs[0]).status, first != second) == ("running", True)
    assert journey.job(jobs[1]).attempts == 1

    # The supervisor is killed: its children notice, finish what they run, and end.
    group.send(signal.SIGKILL)
    until(lambda: group.said().count("supervisor is gone") == 2, "both children notice")
    for job, attempt in zip(jobs, (4, 1), strict=True):
        journey.open(job, attempt)
    until(lambda: not any(alive(pid) for pid in started(group)), "no child lives on")

    rows = journey.rows("SELECT status, attempts, result FROM jobs ORDER BY id")
    assert [(row.status, row.attempts, row.result["pid"]) for row in rows] == [
        ("succeeded", 4, again.pid), ("succeeded", 1, second),
    ]  # fmt: skip
    stand(journey)


@pytest.mark.slow
def test_child_that_does_not_end_in_time_is_killed_and_its_job_taken_back(
    journey: Journey,
) -> None:
    group = supervised(journey, 2, "--concurrency=1", "--lease=10m", "--grace=0.5")
    job = journey.enqueue_one("journey.gate")
    frozen = journey.wait_for_start(job).pid
    os.kill(frozen, signal.SIGSTOP)

    began = time.monotonic()
    status = group.stop(within=40)

    assert status == 1
    assert time.monotonic() - began < 25
    assert f"(pid {frozen}) is over its time: killed" in group.said()
    assert not any(alive(pid) for pid in started(group))
    assert deaths_of(journey, job) == [("SIGKILL", False, 1)]
    assert journey.job(job).status == "queued"
    stand(journey)


def test_ctrl_c_reaches_everybody_and_hurries_only_when_it_comes_again(journey: Journey) -> None:
    group = supervised(journey, 1, "--max-jobs=1000", "--concurrency=1", "--grace=100")
    job = journey.enqueue_one("journey.gate")
    journey.wait_for_start(job)

    # A terminal sends it to the whole group, and the supervisor passes it on as well.
    group.send_to_all(signal.SIGINT)
    until(lambda: group.said().count("SIGINT received") == 2, "both have heard it")
    once = group.said()
    group.send_to_all(signal.SIGINT)
    status = group.wait(within=30)

    assert "hurrying" not in once
    assert status == 0, group.said()
    row = journey.job(job)
    assert (row.status, row.attempts, row.handbacks) == ("queued", 0, 1)
    stand(journey)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "jobs", "least"),
    [("--max-jobs=20", 100, 3), ("--max-rss=1MB", 300, 2)],
)
def test_recycled_processes_lose_no_job_and_no_attempt(
    journey: Journey, limit: str, jobs: int, least: int
) -> None:
    # A limit is reason enough for a supervisor, with a single process too.
    group = supervised(journey, 1, limit, "--concurrency=2", "--grace=20")
    slow = journey.enqueue_one("journey.gate")
    journey.wait_for_start(slow)
    ids = journey.enqueue("journey.tick", {"ms": 20}, count=jobs)
    journey.wait_for_end(ids)
    journey.open(slow)
    row = journey.wait_for_status(slow, "succeeded")

    assert row.attempts == 1
    assert len({line.pid for line in journey.ledger.starts()}) >= least
    rows = journey.rows("SELECT DISTINCT status, attempts FROM jobs")
    assert rows == [("succeeded", 1)]
    assert "takes nothing more" in group.said()
    # Capacity has no gap: the successor begins before the old process, with its long job, is gone.
    assert journey.ledger.starts(slow)[0].pid != journey.ledger.starts(ids[-1])[0].pid
    assert group.stop() == 0, group.said()
    stand(journey, every_claim_started=False)


@pytest.mark.slow
def test_drain_ends_when_every_process_has_drained(journey: Journey) -> None:
    poison = journey.enqueue_one("journey.exit", max_attempts=2, priority=1)
    jobs = journey.enqueue("journey.tick", count=40)
    group = journey.work("--processes=2", "--drain", "--concurrency=1", ready=False)

    assert group.wait(within=100) == 0, group.said()

    assert (journey.job(poison).status, journey.job(poison).attempts) == ("failed", 2)
    # A process may die before it could write that the attempt had begun: that one is no attempt,
    # but the third death.
    deaths = len(journey.ledger.starts(poison))
    reasons = {2: "attempts_used_up", 3: "killed_its_worker"}
    assert end_of(journey, poison) == ("failed", reasons[deaths])
    assert {journey.job(job).status for job in jobs} == {"succeeded"}
    # Two, and one for each that died; those that had drained were not started again.
    assert len(started(group)) == 2 + deaths
    stand(journey)


@pytest.mark.slow
def test_schema_that_no_longer_fits_ends_all_of_it_with_the_message(journey: Journey) -> None:
    group = supervised(journey, 2)
    [revision] = journey.rows("SELECT version_num FROM alembic_version")
    journey.rows("UPDATE alembic_version SET version_num = 'later' RETURNING 1")
    try:
        os.kill(started(group)[0], signal.SIGKILL)
        status = group.wait()
        refused = journey.work("--processes=2", ready=False)
        refusal = refused.wait()
    finally:
        journey.rows("UPDATE alembic_version SET version_num = %(v)s RETURNING 1", v=revision[0])

    assert (status, refusal) == (1, 78)
    assert group.said().count("this release needs") == 1
    assert "exit status 78: a restart cannot help" in group.said()
    assert refused.said().count("this release needs") == 1
    assert started(refused) == []
    stand(journey)
