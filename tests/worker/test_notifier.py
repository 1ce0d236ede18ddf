"""Wake-ups after the commit: heard, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from flask import Flask
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from queueapp.connections import listen_connection
from queueapp.jobs import transitions
from queueapp.jobs.database import CHANNEL
from queueapp.jobs.transitions import NewJob

ECHO = NewJob(kind="demo.echo", payload={"message": "hello"})


@pytest.fixture
def listener(app: Flask) -> Iterator[psycopg.Connection[Any]]:
    connection = listen_connection(app, "listen")
    connection.execute(f"LISTEN {CHANNEL}")
    yield connection
    connection.close()


def put(database: Any) -> None:
    transitions.enqueue(database, [ECHO], producer="app", actor="app", via="python")


def heard(listener: psycopg.Connection[Any], timeout: float) -> int:
    return len(list(listener.notifies(timeout=timeout, stop_after=1)))


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
