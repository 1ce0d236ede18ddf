"""A producer's connection in autocommit mode: whom it tells, and when."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from queueapp.jobs import transitions
from queueapp.jobs.transitions import NewJob
from tests.worker.conftest import heard

ECHO = NewJob(kind="demo.echo", payload={"message": "hello"})
pytestmark = pytest.mark.postgresql("LISTEN")


def test_a_transaction_begun_by_hand_in_autocommit_mode_is_told_of_at_its_commit(
    listener: psycopg.Connection[Any], engine: Engine
) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("BEGIN")
        transitions.enqueue(
            connection,
            [ECHO],
            producer="app",
            actor="app",
            via="python",
        )
        assert heard(listener, 0.2) == 0
        connection.exec_driver_sql("COMMIT")
        assert heard(listener, 5) == 1
