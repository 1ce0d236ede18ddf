"""Connections have the bounds of what they are for, and end when nobody answers."""

from __future__ import annotations

import gc
import socket
import time
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp import connections, create_app
from queueapp.config import load
from queueapp.connections import bounds
from queueapp.connections.bounded import NoAnswer
from queueapp.connections.bounds import Role
from queueapp.extensions import db
from queueapp.jobs.connection_names import connection_name, short_name, told_by
from queueapp.worker import clean_sessions
from tests.live.processes import until
from tests.postgres import text_of

SETTINGS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.WEB, ["5s", "3s", "10s"]),
        (Role.WORK, ["30s", "3s", "30s"]),
        (Role.HANDLER, ["0", "0", "1h"]),
        (Role.COMMAND, ["0", "3s", "0"]),
    ],
)
def test_session_has_the_bounds_of_its_role(app: Flask, role: Role, expected: list[str]) -> None:
    with connections.connect(connections.address_of(app), role) as connection:
        found = [connection.execute(f"SHOW {name}").fetchone() for name in SETTINGS]
        name = connection.execute("SHOW application_name").fetchone()

    assert [row[0] for row in found if row] == expected
    assert name == (f"queueapp-{role.value}",)


def test_options_of_the_address_add_to_the_sessions_own_and_win(database_url: str) -> None:
    url = sa.make_url(database_url)
    given = {"options": "-c search_path=elsewhere -c lock_timeout=7s"}
    app = create_app({"DATABASE_URL": text_of(url.update_query_dict(given))})
    names = ("search_path", "lock_timeout", "TimeZone", "plan_cache_mode")

    with connections.connect(connections.address_of(app), Role.WORK) as connection:
        found = [connection.execute(f"SHOW {name}").fetchone() for name in names]

    assert found == [("elsewhere",), ("7s",), ("UTC",), ("force_generic_plan",)]


def test_a_connection_that_took_too_long_is_closed_at_once(database_url: str) -> None:
    """Not when the garbage collector comes by."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = sa.make_url(database_url).set(host="127.0.0.1", port=deaf.getsockname()[1])
        app = create_app({"DATABASE_URL": text_of(url)})
        gc.disable()
        try:
            with pytest.raises(psycopg.errors.ConnectionTimeout):
                connections.connect(connections.address_of(app), Role.WORK, connect_timeout=2)
            asked, _ = deaf.accept()
            with asked:
                asked.settimeout(20)
                while asked.recv(1024):  # its first words, then the end
                    pass
        finally:
            gc.enable()


def test_no_answer_ends_the_connection_and_the_next_is_another(app: Flask) -> None:
    with app.app_context():
        with db.engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver
            driver.limit_s = 0.2
            began = time.monotonic()
            with pytest.raises(sa.exc.OperationalError) as raised:
                connection.exec_driver_sql("SELECT pg_sleep(30)")
            assert isinstance(raised.value.orig, NoAnswer)
            assert raised.value.connection_invalidated
            assert time.monotonic() - began < 10
        with db.engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT 1").scalar() == 1


class Waits:
    """The longest wait for each answer that is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limits: list[float | None] = []
        wait = psycopg.Connection.wait

        def noted(connection: Any, gen: Any, interval: float = 0.1, timeout: Any = None) -> Any:
            self.limits.append(timeout)
            return wait(connection, gen, interval, timeout)

        monkeypatch.setattr(psycopg.Connection, "wait", noted)


def test_what_clears_a_handlers_session_waits_for_no_hour(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = sa.create_engine("postgresql+psycopg://")
    connections.bind_address(engine, connections.address_of(app), Role.HANDLER)
    clean_sessions(engine)
    session = Session(engine)
    session.execute(sa.text("SELECT 1"))
    waits = Waits(monkeypatch)
    session.execute(sa.text("SELECT 2"))
    assert set(waits.limits) == {bounds.HANDLER_IDLE_TRANSACTION_S}
    waits.limits.clear()

    session.close()

    assert set(waits.limits) == {bounds.PING_S}
    engine.dispose()


def test_a_rollback_leaves_the_limit_of_what_follows(app: Flask) -> None:
    with connections.connect(connections.address_of(app), Role.WORK) as connection:
        before = connection.limit_s
        connection.rollback()

        assert connection.limit_s == before


def test_connection_that_the_server_closed_for_idleness_is_replaced(
    database_url: str,
) -> None:
    app = create_app({"DATABASE_URL": database_url, "QUEUE_IDLE_TIMEOUT": "200ms"})
    backend = "SELECT pg_backend_pid()"
    there = sa.text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    with app.app_context():
        with db.engine.connect() as connection:
            first = connection.exec_driver_sql(backend).scalar()
        other = sa.create_engine(connections.address_of(app).url, poolclass=sa.NullPool)
        with other.connect().execution_options(isolation_level="AUTOCOMMIT") as watcher:
            until(lambda: not watcher.scalar(there, {"pid": first}), "the server closes it")

        with db.engine.connect() as connection:
            assert connection.exec_driver_sql(backend).scalar() != first
        db.engine.dispose()
        other.dispose()


def test_a_web_process_gives_an_answer_within_ten_seconds_by_default() -> None:
    web = bounds.bounds_of(load({}), Role.WEB)
    assert web.limit_s

    slowest = bounds.POOL_S + bounds.PING_S + max(web.connect_s, web.limit_s)
    assert slowest <= 10


@pytest.mark.parametrize(
    ("concurrency", "listens", "settles_beside", "needed"),
    [
        (8, True, True, (4, 13)),
        (8, True, False, (4, 12)),
        (8, False, True, (3, 12)),
        (0, False, False, (1, 1)),
    ],
)
def test_connections_of_a_worker_are_counted(
    concurrency: int, listens: bool, settles_beside: bool, needed: tuple[int, int]
) -> None:
    found = connections.worker_needs(concurrency, listens=listens, settles_beside=settles_beside)

    assert (found.always, found.most) == needed


@pytest.mark.parametrize("worker", ["web-1:4711:9f3a1c", f"{'long.' * 20}:1:abcdef", "bücher:1:a"])
def test_a_connection_is_known_for_its_workers_whatever_the_server_makes_of_the_name(
    engine: sa.Engine, worker: str
) -> None:
    for purpose in ("work", "handler", "listen"):
        with engine.connect() as connection:
            name = connection_name(purpose, worker)
            set_name = sa.text("SELECT set_config('application_name', :name, false)")
            kept = connection.execute(set_name, {"name": name}).scalar_one()

        assert kept == name
        assert told_by(kept) == short_name(worker)


@pytest.mark.parametrize(
    ("settings", "nameless"),
    [
        ({"DATABASE_URL": "postgresql://nowhere/none"}, False),
        ({"DATABASE_URL": "postgresql://nowhere/none?application_name=mine"}, True),
        ({"DATABASE_URL": "postgresql://nowhere/none", "QUEUE_POOLER": "1"}, True),
        ({"DATABASE_URL": ""}, False),
    ],
)
def test_a_worker_knows_whether_its_connections_bear_its_name(
    settings: dict[str, str], nameless: bool
) -> None:
    assert connections.is_nameless(load(settings)) is nameless
