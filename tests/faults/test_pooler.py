"""Everything through PgBouncer in transaction mode, with fewer connections than processes want."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.fixtures import opened
from tests.live.journey import Journey
from tests.live.pooler import Pooler
from tests.live.processes import until

# What libraries of other queues say behind a pooler.
TROUBLE = ("prepared statement", "does not exist", "already exists", "Traceback")
BATCH = 500
LEFT_LOCKED = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"


@pytest.fixture
def pooler(cluster: Cluster, tmp_path: Path) -> Iterator[Pooler]:
    """PgBouncer before ``cluster``."""
    pooler = Pooler(cluster.url, tmp_path / "pooler")
    yield pooler
    pooler.close()


@pytest.fixture
def pooled_journey(
    request: pytest.FixtureRequest, cluster: Cluster, pooler: Pooler, tmp_path: Path
) -> Iterator[Journey]:
    """A queue whose processes know nothing but the pooler; its schema is made through it too."""
    settings: dict[str, Any] = {"DATABASE_URL": pooler.url, "QUEUE_POOLER": "1"}
    with opened(request, cluster.url, tmp_path, migrate=True, **settings) as journey:
        yield journey


def run_everything(journey: Journey, pooler: Pooler, count: int, workers: int) -> None:
    """Run ``count`` jobs, with retries, pages, an interrupted pooler and retention."""
    web = journey.web()
    for worker in journey.workers(workers, "--concurrency", "8", "--lease", "120"):
        worker.wait_until_it_says("behind a pooler: no LISTEN, jobs start within 0.5s")
    through = journey.enqueue_one("journey.gate")
    jobs = [through]
    for number in range(count // BATCH):
        before = len(journey.ledger.starts())
        jobs += journey.enqueue("journey.tick", count=BATCH - 20)
        jobs += journey.enqueue("journey.flaky", count=10)
        jobs += [
            web.ask("POST", "/api/jobs", {"kind": "journey.tick"}).body["id"] for _ in "0" * 10
        ]
        if number in (1, 3):
            journey.wait_for_more_starts(before + 20)
            pooler.stop((signal.SIGTERM, signal.SIGKILL)[number == 3])
            refused = web.ask("POST", "/api/jobs", {"kind": "journey.tick"})
            assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
            pooler.start_again()
    for path in ("/", "/jobs", f"/jobs/{through}", "/events", "/readyz", "/api/stats"):
        assert web.ask("GET", path).status == 200, path
    cancelled = web.ask("POST", "/api/jobs", {"kind": "journey.tick", "delay": 3600}).body["id"]
    assert web.ask("POST", f"/api/jobs/{cancelled}/cancel").status == 200
    journey.open(through)
    journey.wait_for_end(jobs, within=300)
    failed = "SELECT count(*) FROM jobs WHERE status NOT IN ('succeeded', 'cancelled')"
    assert journey.one(failed) == 0
    stand(journey, accepted=jobs)

    words = ("flask", "--app", "wsgi", "purge", "--succeeded", "0")
    purge = journey.processes.start("purge", *words)
    assert purge.wait() == 0, purge.said()
    until(lambda: not journey.one("SELECT count(*) FROM jobs WHERE id = %(id)s", id=jobs[1]), "it")
    assert journey.one(LEFT_LOCKED) == 0
    for process in journey.processes.all:
        assert not any(trouble in process.said() for trouble in TROUBLE), process.said()


@pytest.mark.slow
def test_everything_but_listen_works_through_a_transaction_pooler(
    pooled_journey: Journey, pooler: Pooler
) -> None:
    run_everything(pooled_journey, pooler, 2_000, workers=1)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_twenty_thousand_jobs_go_through_a_transaction_pooler(
    pooled_journey: Journey, pooler: Pooler
) -> None:
    run_everything(pooled_journey, pooler, 20_000, workers=2)
