"""Wake-ups after the commit: heard, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from flask import Flask
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.orm import Session

from queueapp import notifier
from queueapp.connections import address_of, connect
from queueapp.connections.bounds import PING_S, Role
from queueapp.jobs import transitions
from queueapp.jobs.database import CHANNEL, WAKE
from queueapp.jobs.transitions import NewJob
from tests.live.processes import until
from tests.worker.conftest import Statements, heard

ECHO = NewJob(kind="demo.echo", payload={"message": "hello"})


def put(database: Any) -> None:
    transitions.enqueue(database, [ECHO], producer="app", actor="app", via="python")


def test_a_commit_that_made_a_job_due_is_heard(
    listener: psycopg.Connection[Any], session: Session
) -> None:
    put(session)
    assert heard(listener, 0.2) == 0

    session.commit()

    assert heard(listener, 5) == 1


def test_a_rolled_back_enqueue_is_silent(
    listener: psycopg.Connection[Any], session: Session
) -> None:
    put(session)
    session.rollback()
    session.commit()

    assert heard(listener, 0.2) == 0


def test_a_released_savepoint_is_no_commit(
    listener: psycopg.Connection[Any], session: Session
) -> None:
    with session.begin_nested():
        put(session)

    assert heard(listener, 0.2) == 0
    session.commit()
    assert heard(listener, 5) == 1


def test_a_plain_connection_is_heard_as_well(
    listener: psycopg.Connection[Any], engine: Engine
) -> None:
    with engine.begin() as connection:
        put(connection)

    assert heard(listener, 5) == 1


def test_the_last_of_a_burst_of_commits_is_heard(
    listener: psycopg.Connection[Any], session: Session
) -> None:
    for _ in range(50):
        put(session)
        session.commit()
    while heard(listener, 0.5):
        pass

    for _ in range(3):
        put(session)
        session.commit()
        assert heard(listener, 5) > 0


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each NOTIFY was begun."""
    at: list[float] = []
    notify = notifier._notify

    def note(connection: Any) -> None:
        at.append(time.monotonic())
        notify(connection)

    monkeypatch.setattr(notifier, "_notify", note)
    return at


def commit_one(engine: Engine) -> float:
    """Make a job; when that was over."""
    with Session(engine) as session:
        put(session)
        session.commit()
    return time.monotonic()


def test_eight_producers_share_a_notify_each_5_ms_and_send_none_themselves(
    listener: psycopg.Connection[Any], engine: Engine, sent: list[float]
) -> None:
    statements = Statements(engine)
    committed: list[float] = []
    together = threading.Barrier(8)

    def produce() -> None:
        together.wait()
        for _ in range(15):
            with Session(engine) as session:
                put(session)
                session.commit()

    def note(_session: Session) -> None:
        committed.append(time.monotonic())

    # Before the notifier's own.
    event.listen(Session, "after_commit", note, insert=True)
    began = time.monotonic()
    producers = [threading.Thread(target=produce) for _ in range(8)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    event.remove(Session, "after_commit", note)
    notifier.notifier_of(engine).finish(10)

    assert len(committed) == 120
    assert len(sent) <= (sent[-1] - began) / notifier.GAP_S + 1
    assert sent[-1] >= max(committed)
    assert heard(listener, 5) > 0
    assert not [statement for statement in statements.sent if "notify" in statement.lower()]


def test_a_commit_within_the_gap_after_a_notify_is_told_of_as_well(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, sent: list[float]
) -> None:
    committed: list[float] = []

    def gap(_seconds: float) -> None:
        if not committed:
            committed.append(commit_one(engine))

    monkeypatch.setattr(notifier, "time", SimpleNamespace(sleep=gap, monotonic=time.monotonic))

    commit_one(engine)

    until(lambda: len(sent) == 2, "it has told twice")
    assert sent[1] > committed[0]


@pytest.mark.parametrize("moment", ["before it looks again", "while it closes"])
def test_a_commit_while_the_notifier_gives_its_connection_back_is_told_of(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, sent: list[float], moment: str
) -> None:
    committed: list[float] = []

    def commit() -> None:
        if sent and not committed:
            committed.append(0.0)
            committed[0] = commit_one(engine)

    class Wanted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            found = super().wait(timeout)
            if not found and moment == "before it looks again":
                commit()
            return found

    close = notifier._close

    def closing(connection: Any) -> None:
        if moment == "while it closes":
            commit()
        close(connection)

    monkeypatch.setattr(notifier, "IDLE_S", 0.05)
    monkeypatch.setattr(notifier, "_close", closing)
    notifier.notifier_of(engine)._wanted = Wanted()

    commit_one(engine)

    until(lambda: len(sent) == 2, "it has told twice")
    assert sent[1] > committed[0]


def test_a_notifier_whose_connection_has_died_connects_again(
    listener: psycopg.Connection[Any], engine: Engine
) -> None:
    commit_one(engine)
    [notification] = listener.notifies(timeout=10, stop_after=1)
    listener.execute("SELECT pg_terminate_backend(%s, 10000)", (notification.pid,))

    commit_one(engine)

    assert heard(listener, 10) == 1


def test_a_pool_that_is_used_up_keeps_nobody_from_being_heard(
    listener: psycopg.Connection[Any], database_url: str
) -> None:
    engine = create_engine(database_url, pool_size=1, max_overflow=0, pool_timeout=0.1)
    with engine.connect() as only, Session(only) as session:
        put(session)
        session.commit()

        assert heard(listener, 10) == 1
    engine.dispose()


# Ends right after the commit; so does its child, whose threads a fork has not copied.
PRODUCER = """
import os, sys
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
import queueapp
from queueapp.jobs.database import wake_on_commit
engine = create_engine(sys.argv[1])
def commit():
    with Session(engine) as session:
        session.connection()
        wake_on_commit(session)
        session.commit()
commit()
if child := os.fork():
    os.waitpid(child, 0)
else:
    engine.dispose(close=False)
    commit()
"""


@pytest.mark.slow
def test_processes_that_end_after_their_commit_are_heard_parent_and_child(
    listener: psycopg.Connection[Any], database_url: str
) -> None:
    subprocess.run([sys.executable, "-c", PRODUCER, database_url], check=True, timeout=60)

    assert len({notification.pid for notification in listener.notifies(timeout=2)}) == 2


def test_each_database_of_a_process_is_told_of_its_own_commits(
    listener: psycopg.Connection[Any], engine: Engine, database_url: str
) -> None:
    name = f"queue_other_{os.getpid()}"
    listener.execute(f"CREATE DATABASE {name}".encode())
    other = create_engine(make_url(database_url).set(database=name))
    url = other.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as second, Session(other) as session:
        second.execute(f"LISTEN {CHANNEL}".encode())
        session.connection()
        session.info[WAKE] = True
        session.commit()

        assert heard(second, 10) == 1
        assert heard(listener, 0.2) == 0
    other.dispose()
    listener.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.postgresql("NOTIFY")
def test_a_command_too_waits_not_long_for_a_hint_to_be_sent(app: Flask) -> None:
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: connect(address_of(app), Role.COMMAND)
    )

    with notifier.Notifier(engine)._connect() as connection:
        assert connection.limit_s == PING_S
