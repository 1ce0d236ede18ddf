"""PostgreSQL restarts and dies under load: workers come back by themselves, nothing is lost."""

from __future__ import annotations

import signal

from sqlalchemy.exc import DBAPIError

from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.journey import Journey
from tests.live.processes import until


def enqueued(journey: Journey, key: str) -> list[int]:
    """Create a job however long it takes; keyed, so that asking again doubles nothing."""

    def ask() -> list[int] | None:
        try:
            return journey.enqueue("journey.tick", key=key, request_hash="kind=00000000")
        except DBAPIError:
            return None

    return until(ask, "the database takes a job")


def test_workers_go_on_after_the_database_has_restarted_under_load(
    cluster_journey: Journey, cluster: Cluster
) -> None:
    journey = cluster_journey
    # A lease of two minutes: what a lost answer left behind is found by its holder, or never.
    workers = journey.workers(2, "--concurrency", "8", "--lease", "120")
    jobs: list[int] = []
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        stream = journey.enqueue("journey.tick", {"ms": 20}, count=400)
        journey.wait_for_more_starts(len(jobs) + 50)

        cluster.end(number)
        begun = len(journey.ledger.starts())
        cluster.start_again()

        assert begun < len(jobs + stream), "all was done before the restart"
        jobs += stream + enqueued(journey, f"after {number}")
        journey.wait_for_end(jobs)

    assert all(worker.is_running for worker in workers)
    assert journey.rows("SELECT status, attempts, count(*) FROM jobs GROUP BY 1, 2") == [
        ("succeeded", 1, len(jobs))
    ]
    assert sorted(line.job for line in journey.ledger.starts()) == jobs
    stand(journey, accepted=jobs)
