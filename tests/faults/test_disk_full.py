"""Full disks, the database's and the application's own: refused, waited out, nothing lost."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.disk import SmallDisk
from tests.live.journey import Answer, Journey
from tests.live.processes import until

# What needs a new page at once, compressed or not.
LARGE = 150_000


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    disk = SmallDisk(megabytes=220)
    yield disk
    disk.close()


@pytest.fixture
def cluster(disk: SmallDisk) -> Iterator[Cluster]:
    """A server whose data lie on the small disk."""
    cluster = Cluster(disk.place / "cluster")
    yield cluster
    cluster.remove()


@pytest.mark.slow
def test_full_disk_of_the_database_is_waited_out(
    cluster_journey: Journey, cluster: Cluster, disk: SmallDisk
) -> None:
    journey = cluster_journey
    web = journey.web()
    worker = journey.work("--concurrency", "4")
    stream = journey.enqueue("journey.tick", {"ms": 5}, count=3000)
    accepted: list[int] = []

    def refused() -> Answer | None:
        text = secrets.token_hex(LARGE // 2)
        answer = web.ask("POST", "/api/jobs", {"kind": "journey.large", "payload": {"text": text}})
        assert answer.status in (201, 503), answer.body
        if answer.status == 503:
            return answer
        accepted.append(answer.body["id"])
        return None

    journey.wait_for_more_starts(50)
    disk.fill()
    answer = until(refused, "a create is refused")
    # Work that needs no new page may go on; what does is tried again.
    worker.wait_until_it_says("database error")
    begun = len(worker.said().splitlines())
    assert until(refused, "it still is").headers["Retry-After"]
    assert web.ask("GET", "/healthz").status == 200
    disk.free()
    if not cluster.answers():
        cluster.start_again()  # it may have given up for want of room for its log

    until(lambda: not refused(), "creates are taken again")
    journey.wait_for_end([*stream, *accepted])
    assert answer.body["code"] == "database_unavailable"
    errors = [line for line in worker.said().splitlines()[begun:] if "database error" in line]
    assert len(errors) <= 20, errors
    assert worker.is_running
    assert journey.rows("SELECT status, attempts FROM jobs GROUP BY 1, 2") == [("succeeded", 1)]
    stand(journey, accepted=[*stream, *accepted])


def test_full_disk_of_the_application_stops_no_work(journey: Journey, tmp_path: Path) -> None:
    log = tmp_path / "work-1.log"
    log.symlink_to("/dev/full")
    worker = journey.work("--concurrency", "2", JOB_WORKER_LOG_LEVEL="DEBUG")
    try:
        jobs = journey.enqueue("journey.flaky", count=20)
        journey.wait_for_end(jobs)

        assert worker.is_running
        assert worker.stop(within=15) == 0
        stand(journey, accepted=jobs)
    finally:
        worker.kill()
        log.unlink()
        log.touch()
