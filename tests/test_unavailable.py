"""Whatever keeps the database from working is a 503 that says when to try again."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from queueapp import create_app
from queueapp.connections import Address
from queueapp.connections.bounded import NoAnswer
from queueapp.error_handlers.faults import problem_of
from queueapp.shared import Snapshot
from queueapp.shared_readings import name_failure, unavailable

# Read-only, deadlock, serialization, disk, memory, connections, lock, cancelled, shutting down,
# starting up, input and output, connection broken, transaction or session idle for too long.
STATES = "25006 40P01 40001 53100 53200 53300 55P03 57014 57P01 57P03 58030 08006 25P03 57P05"


@pytest.mark.parametrize("state", STATES.split())
def test_state_of_the_database_is_told_as_unavailable(state: str) -> None:
    raised = psycopg.errors.lookup(state)("no luck")

    problem = problem_of(DBAPIError.instance("SELECT 1", {}, raised, psycopg.Error))

    assert (problem.status, problem.code) == (503, "database_unavailable")
    assert dict(problem.headers)["Retry-After"] == "5"


@pytest.mark.parametrize(
    "raised", [NoAnswer("no answer"), psycopg.InterfaceError("closed"), PoolTimeout("all in use")]
)
def test_no_answer_and_no_connection_are_told_alike(raised: Exception) -> None:
    assert problem_of(raised).status == 503


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "the local PostgreSQL under instance/ does not answer: run any command"),
        ("postgresql://db/queue", "the database does not answer: check DATABASE_URL, or try again"),
    ],
)
def test_it_says_what_starts_the_database_again(url: str, said: str) -> None:
    app = create_app({"DATABASE_URL": url})

    with app.app_context():
        problem = problem_of(psycopg.OperationalError("connection refused"))

    assert problem.detail.startswith(said)
    assert problem.detail.endswith(", or try again")
    assert ("DATABASE_URL" in problem.detail) is bool(url)


def test_a_process_of_the_demo_knows_that_its_database_is_the_local_one(tmp_path: Path) -> None:
    app = create_app({"DATABASE_URL": "postgresql://queue:s3cret@127.0.0.1:1/queue"})
    address = app.extensions["queue_address"] = Address(app.extensions["queue_settings"], tmp_path)
    assert not address.is_of_this_folder
    (tmp_path / "password").write_text("s3cret")

    with app.app_context():
        problem = problem_of(psycopg.OperationalError("connection refused"))

    assert "such as flask system, which starts it" in problem.detail


def test_fault_of_ours_is_not_told_as_one_of_the_database() -> None:
    raised = psycopg.errors.lookup("42601")("syntax")

    assert problem_of(raised).status == 500


def test_a_reading_that_fails_within_another_asks_once_to_try_again() -> None:
    within = unavailable(Snapshot(None, 0.0, "the database does not answer"))

    said = name_failure(within)

    # Where it stands within a sentence, that goes on.
    assert said == "the database does not answer"
    assert unavailable(Snapshot(None, 0.0, said)).message == f"{said}; try again"
