"""Many processes and one queue: every job is started once, however they collide."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey


def assert_each_ran_once(journey: Journey, jobs: list[int]) -> None:
    """Each started once, by the outside ledger, and succeeded at its first attempt."""
    assert sorted(line.job for line in journey.ledger.starts()) == jobs
    assert journey.rows("SELECT status, attempts, count(*) FROM jobs GROUP BY 1, 2") == [
        ("succeeded", 1, len(jobs))
    ]


def test_four_workers_of_eight_threads_start_5000_short_jobs_once_each(journey: Journey) -> None:
    journey.workers(4, "--concurrency", "8")

    jobs = journey.enqueue("journey.tick", count=5_000)
    journey.wait_for_end(jobs)

    assert_each_ran_once(journey, jobs)
    assert len({line.pid for line in journey.ledger.starts()}) == 4
    stand(journey, accepted=jobs)


@pytest.mark.slow
def test_prefetching_workers_start_short_jobs_once_each(journey: Journey) -> None:
    journey.workers(2, "--concurrency", "8", "--prefetch", "50")

    jobs = journey.enqueue("journey.tick", count=3_000)
    journey.wait_for_end(jobs)

    assert_each_ran_once(journey, jobs)
    stand(journey, accepted=jobs)


@pytest.mark.slow
def test_slow_writes_make_no_job_start_twice(
    journey: Journey, slow_updates: Callable[[float], None]
) -> None:
    slow_updates(0.02)
    journey.workers(2, "--concurrency", "8", "--lease", "30")

    jobs = journey.enqueue("journey.tick", count=400)
    journey.wait_for_end(jobs, within=100)

    assert_each_ran_once(journey, jobs)
    stand(journey, accepted=jobs)
