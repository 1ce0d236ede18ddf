"""Few connections, and none that a running handler keeps from others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy.engine import make_url

from tests.live.checks import stand
from tests.live.journey import Journey, Web
from tests.live.processes import until

APP = f"app_{os.getpid()}"
OF_THE_APP = "usename = %(app)s AND backend_type = 'client backend'"
HOW_MANY = f"SELECT count(*) FROM pg_stat_activity WHERE {OF_THE_APP}"
END_ALL = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OF_THE_APP}"

# A statement of a millisecond may be under way at any moment; what is open for longer is not.
OPEN_TRANSACTIONS = """
SELECT application_name, state, query FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'queueapp-%%'
  AND (xact_start < clock_timestamp() - interval '0.3 s' OR state LIKE 'idle in transaction%%')
"""


@pytest.fixture
def limit(journey: Journey) -> Iterator[Callable[[int], None]]:
    """Allow the role of the application so many connections; those that it has stay."""
    own = make_url(journey.url).username
    say(journey, f"CREATE ROLE {APP} LOGIN PASSWORD 'app'")
    say(journey, f"GRANT {own} TO {APP}")
    yield lambda most: say(journey, f"ALTER ROLE {APP} CONNECTION LIMIT {most}")
    journey.processes.close()
    until(lambda: not journey.one(HOW_MANY, app=APP), "its backends are gone")
    say(journey, f"DROP ROLE {APP}")


def say(journey: Journey, statement: str) -> None:
    with journey.engine.begin() as connection:
        connection.exec_driver_sql(statement)


def url_of_the_app(journey: Journey) -> str:
    url = make_url(journey.url).set(username=APP, password="app")
    return url.render_as_string(hide_password=False)


def created(web: Web, kind: str) -> int:
    """Create a job, however long there is no connection for it."""

    def ask() -> int | None:
        answer = web.ask("POST", "/api/jobs", {"kind": kind})
        assert answer.status in (201, 503), answer
        return int(answer.body["id"]) if answer.status == 201 else None

    return until(ask, "the API takes a job")


@pytest.mark.timeout(180)
def test_too_few_connections_make_it_slower_and_never_stuck(
    journey: Journey, limit: Callable[[int], None]
) -> None:
    url = url_of_the_app(journey)
    settings = {"DATABASE_URL": url, "QUEUE_LEASE": "4s", "QUEUE_IDLE_TIMEOUT": "2s"}
    limit(0)
    worker = journey.work("--concurrency", "8", ready=False, **settings)
    worker.wait_until_it_says("takes no connection yet, trying again .*too many connections")

    # Fewer than the eight handlers, the worker and the web together would take.
    limit(5)
    worker.wait_until_it_says(r"database connections: 4, and one for each .*\(13 at most\)")
    web = journey.web(DATABASE_URL=url, QUEUE_IDLE_TIMEOUT="2s")
    jobs = journey.enqueue("journey.session", count=40)
    jobs += [created(web, "journey.session") for _ in range(5)]
    journey.wait_for_end(jobs)

    # Now a single one, and a job that outlives its lease unless that is renewed.
    limit(1)
    web.process.kill()
    journey.rows(END_ALL, app=APP)
    long = journey.enqueue_one("journey.gate")
    journey.wait_for_start(long)
    expires = journey.job(long).lease_expires_at
    short = journey.enqueue("journey.tick", count=20)
    journey.wait_for_end(short)
    until(lambda: journey.job(long).lease_expires_at > expires, "it is renewed")
    assert journey.one(HOW_MANY, app=APP) == 1
    journey.open(long)
    journey.wait_for_status(long, "succeeded")

    every = [*jobs, long, *short]
    assert journey.rows("SELECT status, attempts, count(*) FROM jobs GROUP BY 1, 2") == [
        ("succeeded", 1, len(every))
    ]
    assert worker.stop(within=20) == 0
    stand(journey, accepted=every)


def test_no_transaction_is_open_while_a_handler_runs(journey: Journey) -> None:
    """The role's settings would end one, and its job with it."""
    role, database = make_url(journey.url).username, make_url(journey.url).database
    where = f"ALTER ROLE {role} IN DATABASE {database}"
    for name in ("idle_in_transaction_session_timeout", "statement_timeout", "lock_timeout"):
        say(journey, f"{where} SET {name} = '1s'")
    try:
        worker = journey.work("--concurrency", "4", QUEUE_LEASE="3s")
        jobs = journey.enqueue("journey.gate", count=4)
        journey.wait_for_more_starts(4)

        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            assert journey.rows(OPEN_TRANSACTIONS) == []
        for job in jobs:
            journey.open(job)
        journey.wait_for_end(jobs)
    finally:
        say(journey, f"{where} RESET ALL")

    assert journey.rows("SELECT status, attempts, count(*) FROM jobs GROUP BY 1, 2") == [
        ("succeeded", 1, 4)
    ]
    assert "database error" not in worker.said()
    stand(journey)
