"""The PostgreSQL server of one test process: a throw-away cluster, or the one you name.

``TEST_DATABASE_URL`` names a database on a running server whose user may create databases; else
``TEST_PG_BINDIR`` names the binaries; else the first ones found are used. In a parallel run each
worker has a cluster of its own: the oldest running transaction, below which the log of events is
read, is one for all databases of a cluster.
"""

from __future__ import annotations

import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL, make_url

from queueapp.local_postgres import (
    LocalPostgres,
    find_binaries,
    remove_abandoned,
    start,
    version_of,
)

_HOME = "queueapp-test-"
# Truncating all partitions takes 0.2 s, the two or three that a test has written to a tenth of it.
_USED = """
SELECT relid::regclass::text
FROM (SELECT 'jobs'::regclass AS relid UNION SELECT relid FROM pg_partition_tree('job_events')) AS t
WHERE pg_relation_size(relid) > 0
"""


class Server:
    """The server of a test process, started when it is first needed."""

    def __init__(self) -> None:
        self._given = os.environ.get("TEST_DATABASE_URL")
        self._local: LocalPostgres | None = None
        self._made: URL | None = None
        self._cleaner: psycopg.Connection | None = None

    def describe(self) -> str:
        if self._given:
            with _connect(make_url(self._given)) as connection:
                version = connection.info.parameter_status("server_version")
            return f"PostgreSQL {version} of TEST_DATABASE_URL"
        return f"PostgreSQL {version_of(self._binaries)} of {self._binaries}"

    @cached_property
    def database_url(self) -> str:
        """The address of the migrated database; made when it is first asked for."""
        self._made = self._url.set(database=f"queue_test_{os.getpid()}")
        self._say("CREATE DATABASE {}")
        _migrate(self._made)
        return text_of(self._made)

    def empty(self, url: str) -> None:
        """Empty both tables and begin their numbers anew, thousands of times on one connection.

        A test that leaves a transaction open holds this up; it is told so, rather than hang.
        """
        if self._cleaner is None or not _answers(self._cleaner):
            self._cleaner = _connect(make_url(url))
            self._cleaner.execute("SET lock_timeout = '10s'")
        used = self._cleaner.execute(_USED).fetchall()
        if used:
            tables = sql.SQL(", ").join(sql.Identifier(table) for (table,) in used)
            self._cleaner.execute(sql.SQL("TRUNCATE {}").format(tables))
        for table in ("jobs", "job_events"):
            self._cleaner.execute(
                "SELECT setval(pg_get_serial_sequence(%s, 'id'), 1, false)", (table,)
            )

    def close(self) -> None:
        """Remove what this process made."""
        if self._cleaner:
            self._cleaner.close()
        if self._local:
            self._local.remove()
        elif self._made:
            self._say("DROP DATABASE {} WITH (FORCE)")

    @cached_property
    def _binaries(self) -> Path:
        named = os.environ.get("TEST_PG_BINDIR")
        return Path(named) if named else find_binaries()

    @cached_property
    def _url(self) -> URL:
        if self._given:
            return make_url(self._given)
        for left in Path(tempfile.gettempdir()).glob(f"{_HOME}*"):
            remove_abandoned(left)  # a run that was killed could not
        home = Path(tempfile.mkdtemp(prefix=_HOME))
        self._local = start(home, durable=False, binaries=self._binaries)
        return make_url(self._local.url)

    def _say(self, statement: LiteralString) -> None:
        assert self._made
        name = sql.Identifier(str(self._made.database))
        with _connect(self._url) as connection:
            connection.execute(sql.SQL(statement).format(name))


def _answers(connection: psycopg.Connection) -> bool:
    """Whether it is still there: some tests end all connections."""
    try:
        connection.execute("SELECT")
    except psycopg.OperationalError:
        return False
    return True


def text_of(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def _connect(url: URL) -> psycopg.Connection:
    plain = text_of(url.set(drivername="postgresql"))
    return psycopg.connect(plain, autocommit=True, connect_timeout=10)


def _migrate(url: URL) -> None:
    import flask_migrate

    from queueapp import create_app
    from queueapp.extensions import db

    app = create_app({"DATABASE_URL": text_of(url), "TESTING": True})
    with app.app_context():
        flask_migrate.upgrade()
        db.engine.dispose()
