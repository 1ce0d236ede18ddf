"""How Alembic reaches the application's database; run through ``flask db``."""

from __future__ import annotations

import re
import time
from pathlib import Path

from alembic import context
from alembic.util import CommandError
from flask import current_app
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from queueapp.connections import take_role
from queueapp.connections.bounds import Role

# One number for every upgrade of this product: whoever comes second waits for the first.
UPGRADE_LOCK = 730_042

# While ALTER TABLE waits for a reader, all claims wait behind it: so it waits briefly, and often
# enough to come between two short transactions. ``-x tries=1`` asks once only.
LOCK_TIMEOUT = "500ms"
TRIES = 15
PAUSE_S = 4
LOCK_TIMED_OUT = "55P03"

OPEN_TRANSACTIONS = """
SELECT a.pid, coalesce(nullif(a.application_name, ''), a.backend_type) AS name, a.state,
  extract(epoch FROM clock_timestamp() - a.xact_start)::int AS seconds
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND EXISTS (
  SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
  WHERE l.pid = a.pid AND l.granted AND c.relnamespace <> 'pg_catalog'::regnamespace)
ORDER BY a.xact_start LIMIT 3
"""

# Daily partitions of the ledger come and go with the days: they are not drift.
PARTITION = re.compile(r"job_events_(\d{8}|default)$")


def include_name(name: str | None, kind: str, _parents: object) -> bool:
    """Leave the partitions of ``job_events`` out of every comparison."""
    return not (kind == "table" and name is not None and PARTITION.match(name))


def include_object(
    thing: object, name: str | None, kind: str, _reflected: bool, _compared: object
) -> bool:
    """Leave out what SQLite cannot be asked for: that an index column descends."""
    sqlite = getattr(context.get_bind().dialect, "name", None) == "sqlite"
    return not (sqlite and kind == "index" and name == "ix_jobs_claim")


def make_file(engine: Engine) -> None:
    """Make SQLite's file, which nothing else does; without its folder the connection says so."""
    path = Path(engine.url.database or "")
    if engine.dialect.name == "sqlite" and path.parent.is_dir():
        path.touch()


def migrate_online(engine: Engine) -> None:
    """Run the migrations in one transaction, one upgrade at a time."""
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=current_app.extensions["migrate"].db.metadata,
            include_name=include_name,
            include_object=include_object,
            compare_type=connection.dialect.name != "sqlite",
            transactional_ddl=True,
        )
        with context.begin_transaction():
            _take_turns(connection)
            context.run_migrations()


def _take_turns(connection: Connection) -> None:
    # Inside begin_transaction: earlier, Alembic would take the open transaction for a foreign one.
    # Waiting for our turn may take long, and so may building an index.
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})")
    # Waiting for a table must not, for the whole queue waits behind us.
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")


def migrate_patiently(engine: Engine) -> None:
    """Try again while somebody keeps a table locked, then say who; nothing is half done."""
    tries = int(context.get_x_argument(as_dictionary=True).get("tries", TRIES))
    for left in reversed(range(tries)):
        try:
            migrate_online(engine)
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != LOCK_TIMED_OUT:
                raise
            blocked = f"a table is in use by {_open_transactions(engine) or 'somebody'}"
            if not left:
                raise CommandError(
                    f"{blocked}; nothing was changed. End that, or run this again later."
                ) from None
            print(f"{blocked}; again in {PAUSE_S} s, {left} tries left", flush=True)  # noqa: T201
            time.sleep(PAUSE_S)
        else:
            return


def _open_transactions(engine: Engine) -> str:
    with engine.connect() as connection:
        found = connection.exec_driver_sql(OPEN_TRANSACTIONS).all()
    return ", ".join(
        f"process {row.pid} ({row.name}, {row.state} for {row.seconds} s)" for row in found
    )


if context.is_offline_mode():
    raise SystemExit("flask db upgrade needs a database: --sql is not supported")
# Building an index may take longer than a page may.
take_role(current_app, Role.COMMAND)
make_file(current_app.extensions["migrate"].db.engine)
migrate_patiently(current_app.extensions["migrate"].db.engine)
