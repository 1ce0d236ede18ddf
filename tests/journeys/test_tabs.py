"""Many tabs that ask by themselves cost the database what one of them costs."""

from __future__ import annotations

import http.client
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import pytest
from sqlalchemy.orm import Session

from queueapp.jobs import operations
from queueapp.jobs.claim import Holder
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.console.conftest import PANEL
from tests.factories import HOLDER, claim_one, make_job
from tests.live import needs
from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.journey import Journey, Web
from tests.live.processes import until
from tests.live.proxy import Proxy

TABS = 50
# Three polls of most pages.
LASTS_S = 12.0
# What probes wait at most. The first seconds are the worst: each thread finds out by itself.
HEALTH_S = 10.0
# Each list that asks by itself whatever it shows, and how often.
PAGES = {
    "/": 5.0, "/jobs": 5.0, "/errors": 5.0, "/kinds": 5.0, "/workers": 5.0, "/operations": 5.0,
    "/events": 2.0, "/system": 15.0,
}  # fmt: skip
# What the test itself writes meanwhile is not counted.
ASKED = """
SELECT coalesce(sum(calls), 0)::int AS calls, coalesce(sum(total_exec_time), 0)::float AS ms
FROM pg_stat_statements WHERE query NOT ILIKE '%%INSERT INTO%%' AND query NOT ILIKE '%%pg_stat_st%%'
"""


@dataclass(frozen=True)
class Cost:
    """What a page cost the database in ``LASTS_S``, and how its polls were answered."""

    polls: int
    calls: int
    ms: float


class Tab:
    """One open page as its script asks for it."""

    def __init__(self, web: Web, path: str) -> None:
        self._port, self._path, self._tag = web.port, path, ""
        self.statuses: list[int] = []

    def poll(self) -> None:
        """Ask once, on a connection of its own as the pool of a browser does after a while."""
        headers = PANEL | {"Queue-Timer": "1"} | ({"HX-PTag": self._tag} if self._tag else {})
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as line:
            line.request("GET", self._path, headers=headers)
            answer = line.getresponse()
            answer.read()
        self._tag = answer.headers.get("HX-PTag", self._tag)
        self.statuses.append(answer.status)


@pytest.fixture
def counted(cluster: Cluster, cluster_journey: Journey) -> Journey:
    """A queue on a server that counts its statements."""
    there = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'"
    if not cluster_journey.one(there):
        cluster_journey.stood = True
        needs.lacking("pg_stat_statements (postgresql-contrib)")
    cluster.say("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
    cluster.restart()
    cluster.say("CREATE EXTENSION pg_stat_statements")
    cluster.say("ALTER SYSTEM SET pg_stat_statements.track_utility = off")
    cluster.say("SELECT pg_reload_conf()")
    return cluster_journey


def set_up(journey: Journey) -> dict[str, float]:
    """Something for each list to show; the pages of single things, and how often they ask."""
    with Session(journey.engine) as session:
        make_job(session, Status.SUCCEEDED)
        failed = make_job(session, Status.FAILED)
        # It runs for as long as anybody watches.
        running = make_job(session)
        claim_one(session, running.id, Holder(HOLDER.name, lease_s=3600))
        session.commit()
        where = JobFilter(status=(Status.FAILED,))
        made = operations.plan(
            session, operations.survey(session, "retry", where), how={}, actor="user:ana",
            reason="it is back", canary=operations.Terms(),
        )  # fmt: skip
        session.commit()
        return {
            f"/errors/{failed.error_fingerprint}": 5.0, f"/jobs/{running.id}": 2.0,
            f"/operations/{made.id}": 2.0, f"/workers/{HOLDER.name}": 5.0,
        }  # fmt: skip


def watch(journey: Journey, web: Web, path: str, every_s: float, tabs: int) -> Cost:
    """Let so many tabs of a page ask for a while, evenly, beside a queue that moves."""
    over = threading.Event()
    opened = [Tab(web, path) for _ in range(tabs)]
    opened[0].poll()
    journey.one("SELECT pg_stat_statements_reset()::text")
    began = time.monotonic()

    def keep_asking(number: int) -> None:
        at = began + every_s * number / tabs
        while at < began + LASTS_S:
            over.wait(max(at - time.monotonic(), 0))
            opened[number].poll()
            at += every_s

    def keep_moving() -> None:
        while not over.wait(0.5):
            journey.enqueue_one("journey.tick", delay_s=3600.0)

    mover = threading.Thread(target=keep_moving)
    mover.start()
    with ThreadPoolExecutor(tabs) as pool:
        list(pool.map(keep_asking, range(tabs)))
    over.set()
    mover.join()
    asked = journey.rows(ASKED)[0]
    statuses = [status for tab in opened for status in tab.statuses]
    assert set(statuses) <= {200, 304}, path
    return Cost(len(statuses), asked.calls, asked.ms)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_tabs_cost_the_database_what_one_costs(counted: Journey) -> None:
    pages = PAGES | set_up(counted)
    web = counted.web(threads=4)

    costs = {
        path: [watch(counted, web, path, every_s, tabs) for tabs in (1, TABS)]
        for path, every_s in pages.items()
    }

    for path, (one, many) in costs.items():
        sys.stdout.write(
            f"{path:<28} 1 tab: {one.polls:>3} polls {one.calls:>4} statements {one.ms:>6.1f} ms;"
            f" {TABS} tabs: {many.polls:>4} polls {many.calls:>4} statements {many.ms:>6.1f} ms\n"
        )
    # One tab of a slow page may not have come to its second reading yet.
    least = costs["/"][0].calls
    dear = {
        path: cost for path, cost in costs.items() if cost[1].calls > 2 * max(cost[0].calls, least)
    }
    assert not {path for path, (one, _) in costs.items() if path not in PAGES and not one.calls}
    assert dear == {}
    stand(counted, every_claim_started=False)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_tabs_leave_threads_to_others_while_the_database_is_silent(
    journey: Journey, proxy: Proxy
) -> None:
    web = journey.web(threads=4, DATABASE_URL=proxy.url)
    tabs = [Tab(web, path) for path in PAGES for _ in range(6)]
    over, silent_s = threading.Event(), 30.0

    def keep_asking(tab: Tab) -> None:
        while not over.is_set():
            tab.poll()
            over.wait(5.0)

    with ThreadPoolExecutor(len(tabs)) as pool:
        asking = [pool.submit(keep_asking, tab) for tab in tabs]
        until(lambda: all(tab.statuses for tab in tabs), "every tab was answered")
        proxy.stall()
        began, took = time.monotonic(), []
        while time.monotonic() - began < silent_s:
            asked = time.monotonic()
            assert web.ask("GET", "/healthz").status == 200
            took.append(time.monotonic() - asked)
            over.wait(0.5)
        proxy.resume()
        seen = [len(tab.statuses) for tab in tabs]
        until(
            lambda: all(
                set(tab.statuses[n + 1 :]) & {200, 304} for tab, n in zip(tabs, seen, strict=True)
            ),
            "every tab has what is new",
        )
        over.set()
        for one in asking:
            one.result(40)
    sys.stdout.write(f"/healthz was answered after {max(took):.1f} s at most, {len(took)} times\n")
    assert max(took) < HEALTH_S
    assert {status for tab in tabs for status in tab.statuses} <= {200, 304, 503}
    stand(journey, every_claim_started=False)
