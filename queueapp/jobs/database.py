"""How the domain talks to PostgreSQL: any SQLAlchemy Session or Connection in, rows out.

Statements are written once, as constants in psycopg's own form (``%(name)s``), and are sent as they
stand: nothing is compiled per call. Whoever opened the session commits it. On SQLite, the fallback,
the dialect of ``queueapp.jobs.sqlite`` gives the same answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from sqlalchemy import Connection, Row
from sqlalchemy.dialects import registry
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

# The driver of ``sqlite+queue://``, loaded when such an address is met.
registry.register("sqlite.queue", "queueapp.jobs.sqlite.dialect", "QueueSQLite")

# flask_sqlalchemy's db.session is a scoped_session: pass ``db.session()``.
Database: TypeAlias = Session | Connection


def object_or_null(expression: str) -> str:
    """SQL of a JSON object, NULL for whatever else stands there: ``jsonb_each`` refuses that."""
    return f"CASE jsonb_typeof({expression}) WHEN 'object' THEN {expression} END"


def connection_of(database: Database) -> Connection:
    """The connection that ``database`` works on, its transaction begun if need be."""
    return database.connection() if isinstance(database, Session) else database


def run(database: Database, statement: str, **parameters: Any) -> Sequence[Row[Any]]:
    """Execute ``statement`` and return its rows; none for a statement without an answer."""
    connection = connection_of(database)
    if connection.dialect.name == "sqlite":
        fallback: Any = connection.dialect
        rows: Sequence[Row[Any]] = fallback.answer(connection, statement, parameters)
        return rows
    result = connection.exec_driver_sql(statement, parameters)
    return result.all() if result.returns_rows else ()


def run_ids(database: Database, statement: str, **parameters: Any) -> list[int]:
    """The ids that ``statement`` selects: tens of thousands come as one array, not as rows."""
    if connection_of(database).dialect.name == "sqlite":
        return [row.id for row in run(database, statement, **parameters)]
    ids: list[int] = run(database, f"SELECT ARRAY({statement}) AS ids", **parameters)[0].ids
    return ids


def run_hot(database: Database, statement: str, **parameters: Any) -> Sequence[tuple[Any, ...]]:
    """Execute ``statement`` as ``run`` does, by the shortest way: plain tuples, in binary.

    Errors are SQLAlchemy's. They do not invalidate the connection: whoever asks here drops it.
    """
    connection = connection_of(database)
    if connection.dialect.name == "sqlite":
        return [tuple(row) for row in run(database, statement, **parameters)]
    native, names = _numbered(statement)
    try:
        with psycopg.RawCursor(driver_of(connection)) as cursor:
            cursor.execute(native, [parameters[name] for name in names], binary=True)
            return cursor.fetchall()
    except psycopg.Error as error:
        raise as_sqlalchemys(error, connection, statement) from error


def driver_of(connection: Connection) -> Any:
    """The driver's connection below SQLAlchemy's."""
    return connection.connection.driver_connection


def as_sqlalchemys(
    error: psycopg.Error, connection: Connection, statement: str, *, invalidated: bool = False
) -> BaseException:
    """What SQLAlchemy would have raised for an error that went past it, without parameters."""
    return DBAPIError.instance(
        statement, None, error, psycopg.Error, hide_parameters=True,
        connection_invalidated=invalidated, dialect=connection.dialect,
    )  # fmt: skip


@lru_cache
def _numbered(statement: str) -> tuple[bytes, list[str]]:
    """The statement with numbered parameters, as the server takes it, and their names."""
    names = list(dict.fromkeys(_NAMED.findall(statement)))
    native = _NAMED.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    return native.encode(), names


_NAMED = re.compile(r"%\((\w+)\)s")


# In ``Session.info``: this session has made jobs due; tell the workers once it has committed.
WAKE = "queueapp_wake"
CHANNEL = "queueapp_wake"
# A listener that never reads fills the server's queue in the end, and then the commit would fail.
_NOTIFY = f"SELECT pg_notify('{CHANNEL}', '') WHERE pg_notification_queue_usage() < 0.5"


def wake_on_commit(database: Database) -> None:
    """Have idle workers woken when the work of ``database`` is committed.

    A Session says so after its commit (``queueapp.notifier``): a NOTIFY inside the transaction
    would make concurrent producers queue for one lock. A bare Connection has no hook after its
    commit, so its NOTIFY rides in the transaction: right, and slower with many producers.
    """
    if isinstance(database, Session):
        database.info[WAKE] = True
    elif database.dialect.name == "postgresql":
        run(database, _NOTIFY)
