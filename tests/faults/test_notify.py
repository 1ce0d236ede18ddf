"""NOTIFY is a hint: whatever becomes of it, jobs are created, and start within the poll."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import ProgramLimitExceeded

from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.journey import Journey, Web
from tests.live.processes import until

POLL = "0.5s"
# Far below the thirty seconds after which the pump looks without being told by anybody.
SOON_S = 7.0
LISTENER = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'queueapp-listen%%'
"""
# In megabytes at least; only PostgreSQL 17 and newer can be told to have a smaller queue.
FILL = "SELECT pg_notify('chatter', repeat('x', 7900))"


def start_soon(journey: Journey, web: Web) -> list[int]:
    """Create jobs on both paths, one pair after the other; each starts soon."""
    jobs: list[int] = []
    for _ in range(3):
        answer = web.ask("POST", "/api/jobs", {"kind": "journey.tick"})
        assert answer.status == 201, answer.body
        jobs += pair_starts(journey, [answer.body["id"], journey.enqueue_one("journey.tick")])
    return jobs


def pair_starts(journey: Journey, pair: list[int]) -> list[int]:
    until(lambda: all(journey.ledger.starts(job) for job in pair), f"{pair} start", SOON_S)
    return pair


@contextlib.contextmanager
def deaf_listener(cluster: Cluster) -> Iterator[None]:
    """Listens, and then rests in a transaction: what comes is kept for it."""
    with psycopg.connect(cluster.plain_url) as deaf:
        deaf.execute("LISTEN chatter")
        deaf.commit()
        deaf.execute("SELECT 1")
        yield
        deaf.rollback()


def fill_the_queue(cluster: Cluster) -> bool:
    """Notify until the server refuses it; whether it did."""
    with psycopg.connect(cluster.plain_url, autocommit=True) as chatter:
        if chatter.info.server_version < 170000:
            return False
        try:
            for _ in range(10_000):
                chatter.execute(FILL)
        except ProgramLimitExceeded:
            return True
    raise AssertionError("the queue of notifications has no end")


@pytest.mark.slow
def test_jobs_are_created_and_start_soon_whatever_becomes_of_notifications(
    cluster_journey: Journey, cluster: Cluster
) -> None:
    journey = cluster_journey
    with contextlib.suppress(psycopg.Error):
        cluster.say("ALTER SYSTEM SET max_notify_queue_pages = 64")
    cluster.restart()
    web = journey.web()
    worker = journey.work(QUEUE_POLL=POLL)
    until(lambda: journey.rows(LISTENER), "the worker listens")

    jobs = []
    for _ in range(2):
        [[pid]] = until(lambda: journey.rows(LISTENER), "the worker listens again")
        journey.one("SELECT pg_terminate_backend(%(pid)s)", pid=pid)
        jobs += start_soon(journey, web)
    with deaf_listener(cluster):
        full = fill_the_queue(cluster)
        jobs += start_soon(journey, web)

    assert worker.is_running
    if full:
        assert "workers were not woken, they will poll" in web.process.said()
    stand(journey, accepted=jobs)
