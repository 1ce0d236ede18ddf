"""Connections in autocommit mode: each statement is one round trip and is there at once.

That is how our own edges enqueue. There is no commit to hang a wake-up on, so it follows the
statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine

from queueapp.jobs.database import Database, wake_on_commit

_announce: Callable[[Engine], None] | None = None


def announce_with(announce: Callable[[Engine], None]) -> None:
    """Have ``announce`` tell the workers; it must not use the connection that did the work."""
    global _announce  # noqa: PLW0603 - one process has one notifier
    _announce = announce


def is_autocommit(connection: Connection) -> bool:
    """Whether each statement of ``connection`` is a transaction of its own."""
    return connection.dialect.name == "postgresql" and driver_of(connection).autocommit is True


def driver_of(connection: Connection) -> Any:
    """The driver's connection below SQLAlchemy's."""
    return connection.connection.driver_connection


def wake(database: Database) -> None:
    """Have idle workers woken: now where the work is committed already, else when it is."""
    if _announce and isinstance(database, Connection) and is_autocommit(database):
        _announce(database.engine)
    else:
        wake_on_commit(database)
