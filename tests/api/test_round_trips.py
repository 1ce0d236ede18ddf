"""What an enqueue costs in round trips to the database: messages of ours are counted, no time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient

from queueapp import enqueue, notifier
from queueapp.extensions import db
from tests.applications import application
from tests.live.proxy import Proxy

pytestmark = pytest.mark.postgresql("round trips")

ECHO = {"kind": "demo.echo"}


@pytest.fixture
def proxy(database_url: str) -> Iterator[Proxy]:
    proxy = Proxy(database_url)
    yield proxy
    proxy.close()


@pytest.fixture
def app(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    # It has a connection of its own, whose messages are not the request's.
    monkeypatch.setattr(notifier.Notifier, "notify", lambda _self: None)
    with application(proxy.url) as app:
        yield app


def test_a_request_for_a_job_is_one_round_trip(client: FlaskClient, proxy: Proxy) -> None:
    wanted = {**ECHO, "idempotency_key": "k", "payload": {"message": "hello"}}
    for number in range(8):  # connected, and past what comes before preparing
        client.post("/api/jobs", json={**ECHO, "payload": {"message": number}})
    client.post("/api/jobs", json={**wanted, "idempotency_key": "first"})

    trips = []
    for job in (ECHO, wanted, wanted, {**wanted, "priority": 1}):
        before = len(proxy.asked)
        answer = client.post("/api/jobs", json=job)
        trips.append((answer.status_code, len(proxy.asked) - before))

    assert trips == [(201, 1), (201, 1), (200, 1), (409, 1)]


def test_a_connection_in_autocommit_mode_is_one_round_trip_a_job(app: Flask, proxy: Proxy) -> None:
    with (
        app.app_context(),
        db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        made = [enqueue(connection, "demo.echo").id for _ in range(8)]
        before = len(proxy.asked)
        made += [enqueue(connection, "demo.echo").id for _ in range(5)]
        asked = len(proxy.asked) - before
        found = connection.scalar(sa.text("SELECT count(*) FROM jobs"))

    assert (asked, found) == (5, len(made))


def test_thousands_are_one_statement(client: FlaskClient, proxy: Proxy) -> None:
    client.post("/api/jobs/bulk", json=[ECHO] * 2)
    statements: list[str] = []
    with client.application.app_context():
        sa.event.listen(
            db.engine, "before_cursor_execute", lambda *args: statements.append(args[2])
        )

    for extra in ({}, {"idempotency_key": "k"}):
        answer = client.post("/api/jobs/bulk", json=[*[ECHO] * 2_000, {**ECHO, **extra}])
        assert answer.get_json()["counts"]["new"] == 2_001

    assert len(statements) == 2


def test_a_server_that_went_away_is_seen_by_a_look(client: FlaskClient, engine: sa.Engine) -> None:
    client.post("/api/jobs", json=ECHO)
    with engine.connect() as connection:
        connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE application_name = 'queueapp-web' AND datname = current_database()"
            )
        )

    assert client.post("/api/jobs", json=ECHO).status_code == 201


def test_what_has_rested_longer_is_asked(
    client: FlaskClient, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(8):
        client.post("/api/jobs", json=ECHO)
    monkeypatch.setattr("queueapp.connections.ping.FRESH_S", 0.0)

    before = len(proxy.asked)
    client.post("/api/jobs", json=ECHO)

    assert len(proxy.asked) - before == 2
