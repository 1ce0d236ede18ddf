"""Deploys and crashes of whole machines, under load: nothing is lost, nothing fails by them.

``DEPLOY_ROUNDS`` and ``KILLING_S`` make the long ones longer: each round of a deploy prints a line.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import Process, until

ROUNDS = int(os.environ.get("DEPLOY_ROUNDS", "2"))
KILLING_S = float(os.environ.get("KILLING_S", "100"))


@dataclass
class Deploys:
    """Releases of a worker that follow each other as on Heroku. ``kill_s`` counts from SIGTERM.

    There is always a job that outlives every grace: each release hands it to the next.
    """

    journey: Journey
    grace_s: float
    kill_s: float
    short_s: float
    middle_s: float
    queued: int
    long: int = 0
    accepted: list[int] = field(default_factory=list)
    old: Process | None = None
    rounds: int = 0

    def release(self) -> Process:
        return self.journey.work(
            "--processes=2", "--concurrency=4", f"--grace={self.grace_s}", "--lease=10m",
            ready=False,
        )  # fmt: skip

    def begin(self) -> None:
        self.long = self.journey.enqueue_one("journey.gate")
        self.old = self.release()

    def round(self) -> None:
        """Load the old release, replace it, and see what it has done in its last seconds."""
        journey, old = self.journey, self.old
        assert old
        self.rounds += 1
        until(lambda: len(journey.ledger.starts(self.long)) >= self.rounds, "the long job runs", 90)
        short = journey.enqueue_one("journey.tick", {"ms": self.short_s * 1000}, priority=1)
        middle = journey.enqueue_one("journey.tick", {"ms": self.middle_s * 1000}, priority=1)
        held = {journey.wait_for_start(job).pid for job in (short, middle)}
        waiting = journey.enqueue("journey.tick", {"ms": 100}, count=self.queued)
        self.accepted += [short, middle, *waiting]

        new = self.release()
        began = time.monotonic()
        old.send_to_all(signal.SIGTERM)
        until(lambda: time.monotonic() >= began + 1, "a second has passed")
        if old.is_running:
            old.send_to_all(signal.SIGTERM)
        until(lambda: not old.is_running or time.monotonic() >= began + self.kill_s, "it ends", 60)
        took, killed = time.monotonic() - began, old.is_running
        old.kill()

        for job in (short, middle):
            row = journey.job(job)
            assert (row.status, row.attempts, row.handbacks) == ("succeeded", 1, 0), old.said()
            assert row.result["pid"] in held
        journey.wait_for_end(waiting, within=90)
        back = journey.one("SELECT count(*) FROM job_events WHERE event = 'released'")
        sys.stdout.write(
            f"round {self.rounds}: ended in {took:.1f} s{' by SIGKILL' * killed}, "
            f"status {old.wait()}, {back} handbacks so far, "
            f"{journey.one('SELECT count(*) FROM jobs')} jobs\n"
        )
        assert not killed
        assert old.wait() == 0, old.said()
        self.old = new

    def end(self) -> None:
        """Let the long job come to its end, and judge."""
        journey, starts = self.journey, self.rounds + 1
        until(lambda: len(journey.ledger.starts(self.long)) >= starts, "the long job runs", 90)
        journey.open(self.long)
        row = journey.wait_for_status(self.long, "succeeded")

        assert (row.attempts, row.handbacks) == (1, self.rounds)
        rows = journey.rows("SELECT DISTINCT status, attempts FROM jobs")
        assert rows == [("succeeded", 1)]
        lost = "SELECT count(*) FROM job_events WHERE event IN ('lease_expired', 'failed')"
        assert journey.one(lost) == 0
        # What was claimed and had not begun when the signal came was handed back.
        stand(journey, accepted=self.accepted, every_claim_started=False)


def test_deploy_under_load_loses_nothing_and_costs_no_attempt(journey: Journey) -> None:
    # The job in the middle outlasts the second SIGTERM by more than the last words of a handler.
    deploys = Deploys(journey, grace_s=6, kill_s=14, short_s=0.3, middle_s=4, queued=40)

    deploys.begin()
    deploys.round()
    deploys.end()


@pytest.mark.slow
@pytest.mark.timeout(120 + 75 * ROUNDS)
def test_deploys_as_on_a_platform_round_after_round(journey: Journey) -> None:
    deploys = Deploys(journey, grace_s=25, kill_s=30, short_s=1, middle_s=10, queued=100)

    deploys.begin()
    for _ in range(ROUNDS):
        deploys.round()
    deploys.end()


@pytest.mark.slow
@pytest.mark.timeout(300 + int(KILLING_S) * 2)
def test_workers_killed_over_and_over_lose_nothing(journey: Journey) -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    jobs = []
    for _ in range(100):
        lasts = {"ms": rng.uniform(0, 3000)}
        jobs += journey.enqueue("journey.tick", lasts, count=5, max_attempts=50)
    end = time.monotonic() + KILLING_S
    kills = 0

    def fleet() -> list[Process]:
        lease = ("--lease=5", "--concurrency=6")
        alone = [journey.work(*lease, ready=False) for _ in range(2)]
        return [*alone, journey.work(*lease, "--processes=2", ready=False)]

    workers = fleet()
    while time.monotonic() < end:
        seen, kill_at = journey.workers_seen(), time.monotonic() + rng.uniform(3, 20)
        until(lambda s=seen: journey.workers_seen() > s, "one is at work", within=60)  # type: ignore[misc]
        until(lambda at=kill_at: time.monotonic() >= at, "it is time", within=30)  # type: ignore[misc]
        for worker in workers:
            worker.kill()
            kills += 1
        workers = fleet()
    began = time.monotonic()
    journey.wait_for_end(jobs, within=180)

    starts = journey.ledger.starts_by_job()
    sums = journey.rows("SELECT sum(attempts) AS attempts, max(attempts) AS most FROM jobs")[0]
    sys.stdout.write(
        f"seed {seed}: {kills} kills in {KILLING_S:g} s, {len(jobs)} jobs, {starts.total()} starts,"
        f" {sums.attempts} attempts, {sums.most} at most, all done {time.monotonic() - began:.1f} s"
        " after the last kill\n"
    )
    assert journey.rows("SELECT DISTINCT status FROM jobs") == [("succeeded",)]
    assert kills > 3
    assert sums.attempts > len(jobs), "no kill met a job"
    assert starts.total() <= sums.attempts
    # A kill between claim and start costs an attempt that has no start.
    stand(journey, accepted=jobs, every_claim_started=False)
