"""SQLite: that every statement has an answer there, and how its transactions behave."""

from __future__ import annotations

import pkgutil
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

import queueapp.jobs
from queueapp.jobs.sqlite import dialect
from queueapp.jobs.sqlite.answers import known
from queueapp.jobs.sqlite.functions import install
from queueapp.jobs.sqlite.translation import translate
from tests.sqlite import migrated

_STATEMENT = re.compile(r"\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\s")
# Never asked there, or only within another.
POSTGRESQL_ALONE = {
    "carrying._CARRY": "days that are dropped carry their switches over",
    **dict.fromkeys(
        (f"past.{name}" for name in ("_MOVE_BACK", "_FORGET_JOBS", "_FORGET_EVENTS")),
        "incidents to practise on are made there only",
    ),
    **dict.fromkeys(
        (f"made.statements.{name}" for name in ("CLEAR", "CLEAR_LINES", "SAY", "SEED")),
        "a long history is made there only",
    ),
    "pooled._FOUND": "the role behind a pooler",
    "restored._PARTS": "the days of the ledger",
    "queries.oldest._OLDEST": "old transactions hold back no clearing",
    **dict.fromkeys(
        (
            *(f"system.activity.{n}" for n in ("HOLDERS", "BLOCKED", "CONNECTIONS", "NOTIFY")),
            "queries.blocked.BLOCKED",
            "system.activity.HIDDEN",
            *(f"system.storage.{n}" for n in ("DEAD", "SIZES", "INDEX_SIZES", "INDEXES", "IDS")),
            *(f"system.server.{n}" for n in ("READ_ONLY", "DEFAULT_DAY", "SETTINGS")),
            *(f"system.claim_cost.{n}" for n in ("_LOOK", "TREND")),
        ),
        "what its server tells; there the reading says that it cannot be known",
    ),
    "presence.CONNECTIONS": "a list of who is connected",
    "transitions.enqueue_statements.IDS": "one statement takes all there",
    "transitions.settle._CLAIMED_EVENTS": "a part of the exchange",
}


def statements() -> Iterator[tuple[str, str]]:
    """Every whole statement that a module of the domain keeps, by its name."""
    for found in pkgutil.walk_packages(queueapp.jobs.__path__, "queueapp.jobs."):
        if not found.name.startswith("queueapp.jobs.sqlite"):
            short = found.name.removeprefix("queueapp.jobs.")
            for name, value in vars(import_module(found.name)).items():
                if isinstance(value, str) and _STATEMENT.match(value) and "{" not in value:
                    yield f"{short}.{name}", value


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return migrated(tmp_path_factory.mktemp("sqlite") / "queue.db")


@pytest.fixture
def file(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


class Anything(dict[str, Any]):
    def __missing__(self, _name: str) -> None:
        return None


def test_every_statement_is_understood_or_replaced(url: str) -> None:
    refused = {}
    with closing(sqlite3.connect(str(sa.make_url(url).database))) as connection:
        install(connection)
        for name, statement in statements():
            if statement not in known and name not in POSTGRESQL_ALONE:
                try:
                    connection.execute(f"EXPLAIN {translate(statement).text}", Anything())
                except sqlite3.Error as error:
                    refused[name] = str(error)
    assert refused == {}


def test_the_exceptions_are_statements_that_are_there() -> None:
    assert set(dict(statements())) >= POSTGRESQL_ALONE.keys()


def test_a_transaction_that_has_read_can_write_after_somebody_else_has(file: sa.Engine) -> None:
    """SQLite by itself refuses that at once, however long one would wait."""
    with file.connect() as reader:
        assert reader.exec_driver_sql("SELECT count(*) FROM jobs").scalar_one() == 0
        put(file, "first")

        write(reader, "second")
        reader.commit()

    with file.connect() as connection:
        scopes = connection.exec_driver_sql("SELECT scope FROM job_events ORDER BY id").scalars()
        assert [scope for scope in scopes if scope in ("first", "second")] == ["first", "second"]


def test_a_writer_that_waits_too_long_is_told(
    url: str, file: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "BUSY_S", 0.1)
    impatient = sa.create_engine(url)
    with file.begin() as writer:
        write(writer, "slow")
        with pytest.raises(OperationalError, match="locked"):
            put(impatient, "impatient")
    impatient.dispose()


def test_a_reader_of_one_snapshot_sees_no_later_write_and_stops_nobody(file: sa.Engine) -> None:
    count = "SELECT count(*) FROM job_events"
    with file.connect().execution_options(isolation_level="REPEATABLE READ") as reader:
        before = reader.exec_driver_sql(count).scalar_one()
        put(file, "later")
        assert reader.exec_driver_sql(count).scalar_one() == before
        reader.rollback()
        assert reader.exec_driver_sql(count).scalar_one() == before + 1


def put(engine: sa.Engine, scope: str) -> None:
    with engine.begin() as connection:
        write(connection, scope)


def write(connection: sa.Connection, scope: str) -> None:
    connection.exec_driver_sql(
        "INSERT INTO job_events (scope, event, actor) VALUES (%(scope)s, 'queue_paused', 'me')",
        {"scope": scope},
    )


def test_the_file_can_be_written_by_any_program(url: str) -> None:
    """The tables need no function of ours, so a person with sqlite3 can mend what must be."""
    path = Path(str(sa.make_url(url).database))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO jobs (kind, payload, status, producer) VALUES ('a', '{}', 'queued', 'me')"
        )
        [(at,)] = connection.execute("SELECT available_at FROM jobs").fetchall()
        connection.execute("DELETE FROM jobs")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", at)
