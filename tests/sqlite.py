"""The SQLite file of one test process, and which tests it cannot serve.

``TEST_DATABASE_ENGINE=sqlite`` runs the tests on the fallback: all but those about PostgreSQL
itself, each of which is skipped with the reason.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from functools import cached_property
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

# Whole files that are about PostgreSQL; single tests elsewhere are marked ``postgresql``.
ABOUT_POSTGRESQL = {
    "tests/browser/": "the browser's tests write past the verbs, in its dialect",
    "tests/connections/test_connections.py": "what its sessions are set to",
    "tests/faults/": "faults of its server, connections and locks",
    "tests/journeys/": "several worker processes at once",
    "tests/jobs/test_cursor.py": "claims that begin where the last ended; there all begin anew",
    "tests/jobs/test_flat.py": "plans and what they read",
    "tests/jobs/test_partitions.py": "the days of the ledger are partitions",
    "tests/jobs/test_plans.py": "plans and what they read",
    "tests/jobs/test_storm.py": "rivals for row locks",
    "tests/commands/test_bench": "schemas and databases of its server",
    "tests/commands/test_incidents.py": "jobs are moved back in time, in its dialect",
    "tests/commands/test_chaos.py": "a throw-away cluster that is killed",
    "tests/commands/test_purge.py": "days of the ledger and row locks",
    "tests/worker/test_notifier.py": "NOTIFY",
    "tests/jobs/test_pooled.py": "sessions behind PgBouncer",
    "tests/test_migrations.py": "its tables, locks and roles",
    "tests/test_local_postgres.py": "its own server under instance/",
}
HERE_TOO = ("tests/faults/test_sqlite.py",)


def is_chosen() -> bool:
    engine = os.environ.get("TEST_DATABASE_ENGINE", "postgresql")
    if engine not in ("postgresql", "sqlite"):
        raise pytest.UsageError(f"TEST_DATABASE_ENGINE={engine}: expected postgresql or sqlite")
    return engine == "sqlite"


def skip_what_is_about_postgresql(items: list[pytest.Item]) -> None:
    for item in items:
        if reason := _about_postgresql(item):
            item.add_marker(pytest.mark.skip(reason=f"about PostgreSQL itself: {reason}"))


def _about_postgresql(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("postgresql")
    if marker:
        return str(marker.args[0])
    if item.nodeid.startswith(HERE_TOO):
        return None
    found = (why for path, why in ABOUT_POSTGRESQL.items() if item.nodeid.startswith(path))
    return next(found, None)


class File:
    """A migrated file in memory, where the system has a place for that."""

    def __init__(self) -> None:
        self._home: Path | None = None

    def describe(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    @cached_property
    def database_url(self) -> str:
        """The address; made when it is first asked for."""
        memory = Path("/dev/shm")
        place = memory if os.access(memory, os.W_OK) else None
        self._home = Path(tempfile.mkdtemp(prefix="queueapp-test-", dir=place))
        return migrated(self._home / "queue.db")

    def empty(self, url: str) -> None:
        """Empty both tables and begin their numbers anew."""
        connection = sqlite3.connect(str(make_url(url).database), isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            for table in ("jobs", "job_events", "sqlite_sequence"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute("COMMIT")
        finally:
            connection.close()

    def close(self) -> None:
        if self._home:
            shutil.rmtree(self._home)


def migrated(path: Path) -> str:
    """Make the file; its address."""
    import flask_migrate

    from queueapp import create_app
    from queueapp.extensions import db

    app = create_app({"DATABASE_URL": f"sqlite:///{path}", "TESTING": True})
    with app.app_context():
        flask_migrate.upgrade()
        db.engine.dispose()
    return f"sqlite+queue:///{path}"
