"""Connections in autocommit mode: each statement is one round trip and is there at once.

That is how our own edges enqueue. There is no commit to hang a wake-up on, so it follows the
statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection, Engine

from queueapp.jobs.database import Database, as_sqlalchemys, driver_of, run, wake_on_commit

_announce: Callable[[Engine], None] | None = None


def announce_with(announce: Callable[[Engine], None]) -> None:
    """Have ``announce`` tell the workers; it must not use the connection that did the work."""
    global _announce  # noqa: PLW0603 - one process has one notifier
    _announce = announce


def is_autocommit(connection: Connection) -> bool:
    """Whether each statement of ``connection`` is a transaction of its own, as things stand."""
    driver = driver_of(connection)
    if not isinstance(driver, psycopg.Connection):
        return False  # SQLite's, or that of another driver
    return driver.autocommit and driver.info.transaction_status == TransactionStatus.IDLE


def ask(database: Database, statement: str, parameters: Mapping[str, Any]) -> Sequence[Any]:
    """Execute ``statement`` as ``run`` does; in autocommit mode by the shortest way.

    SQLAlchemy's own costs a fifth of a lone enqueue. What fails there other than by its data drops
    the connection, as a disconnect does: the server may be gone, or take no writes any more.
    """
    if not isinstance(database, Connection) or not is_autocommit(database):
        return run(database, statement, **parameters)
    try:
        with driver_of(database).cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(statement, parameters)
            found: list[Any] = cursor.fetchall()
            return found
    except psycopg.Error as error:
        is_of_data = isinstance(error, psycopg.DataError | psycopg.IntegrityError)
        if not is_of_data:
            database.invalidate(error)
        raise as_sqlalchemys(error, database, statement, invalidated=not is_of_data) from error


@contextmanager
def one_transaction(connection: Connection) -> Iterator[None]:
    """All or none of several statements on ``connection``, which is in autocommit mode.

    BEGIN and COMMIT are statements like the others, so that their errors are SQLAlchemy's as well:
    the driver's own transaction would also take a connection that was lost before its COMMIT for a
    success.
    """
    try:
        run(connection, "BEGIN")
        yield
        run(connection, "COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: Connection) -> None:
    if connection.invalidated:
        return  # with what was begun on it
    try:
        driver_of(connection).rollback()
    except psycopg.Error as error:
        connection.invalidate(error)


def wake(database: Database) -> None:
    """Have idle workers woken: now where the work is committed already, else when it is."""
    if _announce and isinstance(database, Connection) and is_autocommit(database):
        _announce(database.engine)
    else:
        wake_on_commit(database)
