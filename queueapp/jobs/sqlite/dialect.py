"""SQLAlchemy's SQLite dialect, made to behave like PostgreSQL at READ COMMITTED.

A transaction reads what is committed, statement by statement, until its first write; from there to
its end it is the only writer (BEGIN IMMEDIATE). So nothing that was read has to be promoted to a
write, the one thing that SQLite refuses at once with "database is locked", however long one would
wait. Readers never wait, by the write-ahead log; writers wait in line for ``BUSY_S``.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import types
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from queueapp.jobs.sqlite.answers import answer
from queueapp.jobs.sqlite.driver import AUTOCOMMIT, READ_COMMITTED, REPEATABLE_READ, Driver
from queueapp.jobs.sqlite.functions import install
from queueapp.jobs.sqlite.translation import translate
from queueapp.jobs.sqlite.values import json_text, parameters_of

BUSY_S = 10.0


class _Instant(types.DateTime):
    """The driver reads a column's instants; what is computed from them comes as text."""

    def bind_processor(self, dialect: Any) -> Any:
        return None

    def result_processor(self, dialect: Any, coltype: object) -> Any:
        return lambda value: datetime.fromisoformat(value) if isinstance(value, str) else value


class _Token(types.Uuid[Any]):
    def bind_processor(self, dialect: Any) -> Any:
        return None

    def result_processor(self, dialect: Any, coltype: object) -> Any:
        return None


class _Json(types.JSON):
    def bind_processor(self, dialect: Any) -> Any:
        return json_text

    def result_processor(self, dialect: Any, coltype: object) -> Any:
        return None


class _List(types.ARRAY[Any]):
    def bind_processor(self, dialect: Any) -> Any:
        return None


class QueueSQLite(SQLiteDialect_pysqlite):
    """``sqlite+queue:///file``: statements in PostgreSQL's words are welcome."""

    driver = "queue"
    supports_statement_cache = True
    colspecs = {  # noqa: RUF012
        **SQLiteDialect_pysqlite.colspecs,
        types.DateTime: _Instant,
        types.Uuid: _Token,
        types.JSON: _Json,
        types.ARRAY: _List,
    }
    # Here, so that whoever asks (``queueapp.jobs.database``) need not know of the replacements.
    answer = staticmethod(answer)

    def create_connect_args(self, url: Any) -> Any:
        """Add how the driver is to read values, wait for writers and leave transactions alone.

        A file that does not exist is not made: with a wrong path an empty one would hide that.
        """
        _, options = super().create_connect_args(url)
        file = f"{Path(url.database).absolute().as_uri()}?mode=rw"
        own = {
            "factory": Driver,
            "detect_types": sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES,
            "isolation_level": None,
            "timeout": BUSY_S,
            "uri": True,
        }
        return [file], {**options, **own}

    def on_connect(self) -> Callable[[Any], None]:
        """Prepare a new connection."""
        prepare = super().on_connect()

        def connected(driver: Any) -> None:
            prepare(driver)
            install(driver)
            _log_ahead(driver)

        return connected

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[Any]:
        """The three ways of beginning a transaction."""
        return (AUTOCOMMIT, READ_COMMITTED, REPEATABLE_READ)

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Remember how transactions begin."""
        dbapi_connection.mode = level

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """How transactions begin."""
        return dbapi_connection.mode

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """Whether each statement is a transaction of its own."""
        return bool(dbapi_conn.mode == AUTOCOMMIT)

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Translate, begin if need be, execute."""
        translated = translate(statement)
        if statement in ("COMMIT", "ROLLBACK") and not cursor.connection.in_transaction:
            return  # as PostgreSQL, which only warns
        cursor.connection.begin_for(writes=translated.writes)
        cursor.execute(translated.text, parameters_of(parameters))

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        """The same without parameters."""
        self.do_execute(cursor, statement, (), context)

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        """The same for many rows."""
        translated = translate(statement)
        cursor.connection.begin_for(writes=translated.writes)
        cursor.executemany(translated.text, [parameters_of(each) for each in parameters])


def _log_ahead(driver: sqlite3.Connection) -> None:
    """Turn on the write-ahead log, for good; the switch alone does not wait for other openers."""
    deadline = time.monotonic() + BUSY_S
    while driver.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            driver.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
