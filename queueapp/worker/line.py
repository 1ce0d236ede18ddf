"""One database connection of one thread, opened when needed and thrown away when it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError


class Line:
    """An autocommit connection that is opened again after a failure."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    @contextlib.contextmanager
    def use(self) -> Iterator[Connection]:
        """The connection. Whatever the database refuses drops it: the next use begins afresh."""
        if self._connection is None:
            self._connection = self._engine.connect()
        try:
            yield self._connection
        except DBAPIError:
            self.drop()
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction of its own, on a second connection, committed at the end."""
        with self._engine.connect() as connection:
            plain = connection.execution_options(isolation_level="READ COMMITTED")
            with plain.begin():
                yield plain

    def drop(self) -> None:
        """Close the connection; a broken one too."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.invalidate()
            connection.close()
