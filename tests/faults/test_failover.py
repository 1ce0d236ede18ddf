"""The server that takes writes is lost, or becomes read-only: everything moves to its successor."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from queueapp import create_app
from queueapp.extensions import db
from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.fixtures import opened
from tests.live.journey import Answer, Journey, Web
from tests.live.processes import until
from tests.live.standby import both, follow, lose, promote, rejoin

LOAD = {"kind": "journey.tick", "payload": {"ms": 20}}


class Producer(threading.Thread):
    """Creates jobs through the API until told to stop; asks again until each is acknowledged."""

    def __init__(self, web: Web, name: str) -> None:
        super().__init__(name=name)
        self.accepted: list[int] = []
        self.refused: list[Answer] = []
        self._web = web
        self._done = threading.Event()

    def run(self) -> None:
        """Create one job after the other."""
        number = 0
        while not self._done.is_set():
            answer = self._ask({**LOAD, "idempotency_key": f"{self.name}-{number}"})
            if answer and answer.status in (200, 201):
                self.accepted.append(answer.body["id"])
                number += 1
            elif answer:
                self.refused.append(answer)
                self._done.wait(0.1)

    def _ask(self, job: dict[str, Any]) -> Answer | None:
        try:
            return self._web.ask("POST", "/api/jobs", job)
        except (OSError, HTTPException):
            return None

    def stop(self) -> None:
        self._done.set()
        self.join()


@contextmanager
def producing(web: Web) -> Iterator[list[Producer]]:
    """Load from two producers; stopped at the end, whatever happens."""
    producers = [Producer(web, f"producer-{n}") for n in range(2)]
    for producer in producers:
        producer.start()
    try:
        yield producers
    finally:
        for producer in producers:
            producer.stop()


def accepted(producers: list[Producer]) -> list[int]:
    return [job for producer in producers for job in producer.accepted]


def refused(producers: list[Producer]) -> list[Answer]:
    return [answer for producer in producers for answer in producer.refused]


def all_end_well(journey: Journey, jobs: list[int]) -> None:
    left = "SELECT count(*) FROM jobs WHERE status <> 'succeeded'"
    until(lambda: not journey.one(left), "all jobs succeed", within=60)
    assert set(jobs) <= {row.id for row in journey.rows("SELECT id FROM jobs")}
    assert journey.rows("SELECT id FROM jobs WHERE error_class IS NOT NULL") == []


@pytest.fixture
def standby(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """A server in step with ``cluster``: what one has acknowledged, both have written."""
    standby = follow(cluster, tmp_path / "standby")
    yield standby
    # The one that waits for the other at a commit is ended first.
    standby.remove()


@pytest.fixture
def pair_journey(
    request: pytest.FixtureRequest, cluster: Cluster, standby: Cluster, tmp_path: Path
) -> Iterator[Journey]:
    """A queue on both servers, all of it by the address that names both."""
    with opened(request, both(cluster, standby), tmp_path, migrate=True) as journey:
        yield journey


@pytest.mark.slow
def test_standby_takes_over_from_a_killed_primary_and_no_acknowledged_job_is_lost(
    pair_journey: Journey, cluster: Cluster, standby: Cluster
) -> None:
    journey = pair_journey
    web = journey.web()
    workers = journey.workers(2, "--concurrency", "4", "--lease", "120")
    through = journey.enqueue_one("journey.gate")
    journey.wait_for_start(through)
    with producing(web) as producers:
        until(lambda: len(accepted(producers)) > 40, "40 jobs are acknowledged")

        lose(cluster)
        lost, before = time.monotonic(), len(accepted(producers))
        promote(standby)
        journey.wait_for_more_starts(len(journey.ledger.starts()) + 1)
        took = time.monotonic() - lost
        sys.stdout.write(f"the first start came {took:.1f} s after the primary was killed\n")

        until(lambda: len(accepted(producers)) > before + 40, "40 jobs more are acknowledged")
    journey.open(through)
    all_end_well(journey, [through, *accepted(producers)])

    assert took < 30
    assert journey.job(through).attempts == 1, "a lease outlives the server that gave it"
    assert all(worker.is_running for worker in workers)
    stand(journey, accepted=accepted(producers))


READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = {}"


@pytest.mark.slow
def test_nothing_fails_while_the_database_takes_no_writes_and_all_goes_on_afterwards(
    cluster_journey: Journey, cluster: Cluster
) -> None:
    journey = cluster_journey
    web = journey.web()
    worker = journey.work("--concurrency", "4")
    held = [journey.enqueue_one(kind) for kind in ("journey.gate", "journey.parent")]
    journey.wait_for_more_starts(2)
    with producing(web) as producers:
        until(lambda: len(accepted(producers)) > 20, "20 jobs are acknowledged")

        say_and_reload(cluster, READ_ONLY.format("on"))
        until(lambda: refused(producers), "a job is refused")
        ready = web.ask("GET", "/readyz")
        late = journey.processes.start("work", "flask", "--app", "wsgi", "work", "--drain")
        for job in held:
            journey.open(job)
        # The worker has met it at a settle, a claim, a look at the queue, and in a job's session.
        worker.wait_until_it_says("pump: database error ReadOnlySqlTransaction")
        until(lambda: len(journey.ledger.ends(held[1])) == 1, "the handler has met it")
        late.wait_until_it_says("waiting: the database is read-only at the moment")
        say_and_reload(cluster, READ_ONLY.format("off"))

        before = len(accepted(producers))
        until(lambda: len(accepted(producers)) > before + 20, "20 jobs more are acknowledged")
    all_end_well(journey, [*held, *accepted(producers)])
    assert late.wait() == 0, late.said()

    assert ready.status == 503
    assert {answer.status for answer in refused(producers)} == {503}
    for answer in refused(producers):
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert int(answer.headers["Retry-After"]) > 0
    assert worker.is_running
    assert {journey.job(job).attempts for job in held} == {1}
    reasons = journey.rows("SELECT job_id, reason FROM job_events WHERE event = 'deferred'")
    assert reasons == [(held[1], "database_read_only")]
    stand(journey, accepted=accepted(producers))


def say_and_reload(server: Cluster, statement: str) -> None:
    server.say(statement)
    server.say("SELECT pg_reload_conf()")


@pytest.mark.slow
def test_everything_moves_from_server_to_server_whatever_becomes_of_the_old_one(
    pair_journey: Journey, cluster: Cluster, standby: Cluster
) -> None:
    journey = pair_journey
    web = journey.web()
    workers = journey.workers(2, "--concurrency", "4", "--lease", "120")
    through = [journey.enqueue_one(kind) for kind in ("journey.gate", "journey.parent")]
    journey.wait_for_more_starts(2)
    with producing(web) as producers:
        go_on(journey, producers)

        # The old server lives on, with every connection to it.
        say_and_reload(cluster, READ_ONLY.format("on"))
        until(lambda: refused(producers), "a job is refused")
        promote(standby)
        assert cluster.answers()
        go_on(journey, producers)

        # It comes back behind its address, which stands first, and follows; the new one restarts.
        rejoin(cluster, standby)
        go_on(journey, producers)
        standby.restart(signal.SIGQUIT)
        go_on(journey, producers)

        lose(standby)
        promote(cluster)
        go_on(journey, producers)
    for job in through:
        journey.open(job)
    all_end_well(journey, [*through, *accepted(producers)])

    assert {answer.status for answer in refused(producers)} == {503}
    assert all(worker.is_running for worker in workers)
    assert {journey.job(job).attempts for job in through} == {1}
    stand(journey, accepted=accepted(producers))


def go_on(journey: Journey, producers: list[Producer]) -> None:
    """Wait until both sides work again: jobs are taken, and run."""
    taken, begun = len(accepted(producers)), len(journey.ledger.starts())
    until(lambda: len(accepted(producers)) > taken + 30, "30 jobs more are acknowledged")
    journey.wait_for_more_starts(begun + 30)


@pytest.mark.slow
def test_console_and_api_read_from_a_standby_and_refuse_to_act_there(
    pair_journey: Journey, standby: Cluster
) -> None:
    job = pair_journey.enqueue_one("demo.echo", {})
    app = create_app({"DATABASE_URL": standby.url, "TESTING": True})
    client = app.test_client()
    until(lambda: client.get(f"/api/jobs/{job}").status_code == 200, "the standby has the job")

    pages = ["/", "/jobs", "/jobs?status=queued", f"/jobs/{job}", "/events", "/system"]
    reads = ["/healthz", "/api/jobs", f"/api/jobs/{job}/events", "/api/stats"]
    read = {path: client.get(path).status_code for path in pages + reads}
    question = client.get(f"/jobs/{job}/cancel")
    acted = client.post(f"/jobs/{job}/cancel", headers={"Sec-Fetch-Site": "same-origin"})
    created = client.post("/api/jobs", json={"kind": "demo.echo"})
    ready = client.get("/readyz")
    with app.app_context():
        db.engine.dispose()

    assert set(read.values()) == {200}, read
    assert ready.status_code == 503
    assert (question.status_code, acted.status_code, created.status_code) == (503, 503, 503)
    assert "read-only at the moment" in acted.text, acted.text[-2500:]
    assert int(created.headers["Retry-After"]) > 0
    assert pair_journey.job(job).status == "queued"
    stand(pair_journey, accepted=[job])
