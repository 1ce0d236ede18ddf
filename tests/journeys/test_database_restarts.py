"""PostgreSQL restarts and dies under load: workers come back by themselves, nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from queueapp import local_postgres
from tests.journeys.checks import stand
from tests.journeys.journey import Journey
from tests.journeys.processes import until


class Cluster:
    """A server of the test's own. Durable: what was committed must survive kill -9."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._share = local_postgres.start(home)
        self.url = self._share.url

    def pid(self) -> int:
        with psycopg.connect(self.url.replace("+psycopg", "")) as connection:
            row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
        assert row
        return int(row[0].split()[0])

    def end(self, number: int) -> None:
        """Send the server a signal and wait until it is gone."""
        pid = self.pid()
        os.kill(pid, number)
        until(lambda: not Path(f"/proc/{pid}").exists() or not answers(self.url), "it is gone")

    def start_again(self) -> None:
        """Start it on its old port."""
        self._share.close()
        self._share = local_postgres.start(self._home)
        assert self._share.url == self.url

    def remove(self) -> None:
        self._share.remove()


def answers(url: str) -> bool:
    try:
        psycopg.connect(url.replace("+psycopg", ""), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    cluster.remove()


@pytest.fixture
def journey(cluster: Cluster, tmp_path: Path) -> Iterator[Journey]:
    """A queue on the cluster, its schema made by the command."""
    journey = Journey(cluster.url, tmp_path)
    upgrade = journey.processes.start("upgrade", "flask", "--app", "wsgi", "db", "upgrade")
    assert upgrade.wait() == 0, upgrade.said()
    yield journey
    journey.close()


def enqueued(journey: Journey, key: str) -> list[int]:
    """Create a job however long it takes; keyed, so that asking again doubles nothing."""

    def ask() -> list[int] | None:
        try:
            return journey.enqueue("journey.tick", key=key, request_hash="kind=00000000")
        except DBAPIError:
            return None

    return until(ask, "the database takes a job")


def test_workers_go_on_after_the_database_has_restarted_under_load(
    journey: Journey, cluster: Cluster
) -> None:
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
