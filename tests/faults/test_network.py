"""Networks that go silent: every wait for the database ends, and work goes on when it is back."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.live.checks import stand
from tests.live.journey import Answer, Journey, Web
from tests.live.network import Network
from tests.live.processes import Process, until
from tests.live.proxy import Proxy

# What callers of the API wait at most, and a worker beyond its grace.
API_S = 10.0
LEAVE_S = 15.0


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


def create(web: Web) -> tuple[Answer, float]:
    """Ask for a job; the answer, and how long it took."""
    began = time.monotonic()
    answer = web.ask("POST", "/api/jobs", {"kind": "journey.tick"})
    return answer, time.monotonic() - began


def refused_in_time(asked: tuple[Answer, float]) -> bool:
    answer, took = asked
    assert (answer.status, answer.body["code"]) == (503, "database_unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    return took < API_S


def left_in_time(worker: Process) -> None:
    assert worker.wait(within=LEAVE_S) == 0, worker.said()


@pytest.mark.slow
def test_server_that_acknowledges_and_never_answers_is_given_up(
    journey: Journey, proxy: Proxy
) -> None:
    web = journey.web(DATABASE_URL=proxy.url)
    first, _ = create(web)
    quick: dict[str, Any] = {"DATABASE_URL": proxy.url, "QUEUE_WORK_QUERY_TIMEOUT": "1s"}
    stays = journey.work("--concurrency", "1", **quick)
    job = journey.enqueue_one("journey.gate")
    journey.wait_for_start(job)
    leaves = journey.work("--grace", "0", **quick)

    proxy.stall()
    leaves.send(signal.SIGTERM)
    # More than the web has threads: on open connections, on new ones, and behind others.
    with ThreadPoolExecutor(12) as clients:
        slow = list(clients.map(create, [web] * 12))
    journey.open(job)
    left_in_time(leaves)
    stays.wait_until_it_says("pump: database error", within=20)
    proxy.resume()

    assert all(map(refused_in_time, slow)), slow
    assert journey.wait_for_status(job, "succeeded").attempts == 1
    later = until(lambda: create(web)[0].status == 201, "the API takes jobs again")
    assert later
    stand(journey, accepted=[first.body["id"], job])


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("direction", ["requests", "answers"])
def test_lost_packets_block_nobody_and_cost_a_lease_at_most(
    journey: Journey, network: Network, direction: str
) -> None:
    proxy = Proxy(journey.url, at=network.address)
    cut_off = {"DATABASE_URL": proxy.url, "QUEUE_LEASE": "6s"}

    def work(*options: str) -> Process:
        words = ("flask", "--app", "wsgi", "work", *options)
        return network.inside(lambda: journey.processes.start("work", *words, **cut_off))

    try:
        web = network.inside(lambda: journey.web(DATABASE_URL=proxy.url))
        assert network.inside(lambda: create(web))[0].status == 201
        stays = work("--concurrency", "1")
        job = journey.enqueue_one("journey.gate")
        journey.wait_for_start(job)
        leaves = work("--grace", "0")
        leaves.wait_until_it_says("kinds")
        until(lambda: journey.workers_seen() == 2, "both are at work")

        network.swallow(**{other: other == direction for other in ("requests", "answers")})
        began = time.monotonic()
        leaves.send(signal.SIGTERM)
        # Both on open connections and on new ones, one after the other and at once.
        for _ in range(2):
            asked = [network.begin_inside(lambda: create(web)) for _ in range(12)]
            assert all(refused_in_time(each()) for each in asked)
        left_in_time(leaves)
        journey.work(QUEUE_LEASE="6s")
        journey.wait_for_start(job, attempt=2)
        # The first holder ends while it is cut off, and will say so too late.
        journey.open(job)
        until(lambda: time.monotonic() - began > 25, "the block has lasted", within=40)
        network.heal()

        stays.wait_until_it_says("lease lost|stale|refused", within=60)
        assert stays.is_running
        journey.open(job, attempt=2)
        row = journey.wait_for_status(job, "succeeded")
        assert (row.attempts, row.result["attempt"]) == (2, 2)
        until(lambda: network.inside(lambda: create(web))[0].status == 201, "jobs are taken again")
        stand(journey, frozen=True)
    finally:
        journey.processes.close()
        proxy.close()
