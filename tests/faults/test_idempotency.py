"""Idempotency keys through several web processes: one job, however its requests collide or fail."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.live.checks import stand
from tests.live.journey import Answer, Journey

_SLOW = """
CREATE FUNCTION slow_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$;
CREATE TRIGGER slow_insert BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION slow_insert()
"""


@contextlib.contextmanager
def slow_inserts(engine: Engine) -> Iterator[None]:
    """Keep every insert of a job open for a while before it takes its key."""
    with engine.begin() as connection:
        connection.exec_driver_sql(_SLOW)
    yield
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP FUNCTION slow_insert() CASCADE")


@pytest.mark.slow
def test_requests_with_one_key_at_once_make_one_job_though_inserts_are_slow(
    journey: Journey,
) -> None:
    web = journey.web(workers=4)
    journey.work()

    def post(number: int) -> tuple[str, Answer]:
        key = f"order-{number % 50}"
        wanted = {"kind": "journey.tick", "payload": {"ms": 1}, "idempotency_key": key}
        return key, web.ask("POST", "/api/jobs", wanted)

    with slow_inserts(journey.engine), ThreadPoolExecutor(50) as pool:
        # Neighbours in time share a key, so that they are in their inserts together.
        order = sorted(range(200), key=lambda number: number % 50)
        answers = list(pool.map(post, order))

    assert Counter(answer.status for _, answer in answers) == {201: 50, 200: 150}
    ids: dict[str, set[int]] = {}
    for key, answer in answers:
        ids.setdefault(key, set()).add(answer.body["id"])
    assert {len(made) for made in ids.values()} == {1}
    jobs = sorted(job for made in ids.values() for job in made)
    assert len(set(jobs)) == 50
    journey.wait_for_end(jobs)
    assert journey.one("SELECT count(*) FROM job_events WHERE event = 'enqueued'") == 50
    assert sorted(line.job for line in journey.ledger.starts()) == jobs
    stand(journey, accepted=jobs)


def test_key_is_its_producers_own_and_answers_nothing_of_anothers_job(journey: Journey) -> None:
    roles = {"shop": "producer", "bank": "producer", "boss": "admin", "guest": "viewer"}
    entries = [
        f"{name}:{role}:{hashlib.sha256(f'{name}-secret'.encode()).hexdigest()}"
        for name, role in roles.items()
    ]
    web = journey.web(QUEUE_TOKENS=" ".join(entries))

    def post(name: str, payload: Any, **fields: Any) -> Answer:
        wanted = {"kind": "demo.echo", "payload": {"message": payload}, "idempotency_key": "k"}
        return web.ask(
            "POST", "/api/jobs", {**wanted, **fields}, Authorization=f"Bearer {name}-secret"
        )

    first = post("shop", "the shop's secret")
    others = {name: post(name, "mine") for name in ("bank", "boss")}
    refused = post("guest", "mine")
    conflict = post("shop", "another", priority=1)
    again = post("shop", "the shop's secret")

    assert first.status == 201
    assert {answer.status for answer in others.values()} == {201}
    assert len({first.body["id"], *(answer.body["id"] for answer in others.values())}) == 3
    assert (refused.status, conflict.status, again.status) == (403, 409, 200)
    assert again.body["id"] == first.body["id"]
    assert conflict.body["fields"] == ["payload", "priority"]
    for answer in (*others.values(), refused, conflict):
        assert "the shop's secret" not in json.dumps(answer.body)
    stand(journey)


def test_refused_request_does_not_use_up_its_key(journey: Journey) -> None:
    web = journey.web()
    wanted = {"kind": "demo.echo", "payload": {"message": 1}, "idempotency_key": "k"}

    def post(**fields: Any) -> int:
        return web.ask("POST", "/api/jobs", {**wanted, **fields}).status

    assert post(priority="high") == 422
    assert post(payload={"message": "x" * 2**20}) == 413
    assert web.ask("POST", "/api/jobs", wanted, Origin="https://elsewhere.example").status == 403
    with read_only(journey.engine):
        assert post() == 503
    assert post() == 201
    assert post() == 200
    assert journey.one("SELECT count(*) FROM jobs") == 1
    stand(journey)


@contextlib.contextmanager
def read_only(engine: Engine) -> Iterator[None]:
    """Have new sessions of this database begin as on a standby, and end those there are."""
    name = engine.url.database
    end = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'queueapp-%%'"""

    def tell(statement: str) -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("SET default_transaction_read_only = off")
            connection.exec_driver_sql(statement)
            connection.exec_driver_sql(end)

    tell(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    try:
        yield
    finally:
        tell(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
        engine.dispose()
