"""How Alembic reaches the application's database; run through ``flask db``."""

from __future__ import annotations

import re

from alembic import context
from flask import current_app
from sqlalchemy import Connection, Engine

# One number for every upgrade of this product: whoever comes second waits for the first.
UPGRADE_LOCK = 730_042

# Daily partitions of the ledger come and go with the days: they are not drift.
PARTITION = re.compile(r"job_events_(\d{8}|default)$")


def include_name(name: str | None, kind: str, _parents: object) -> bool:
    """Leave the partitions of ``job_events`` out of every comparison."""
    return not (kind == "table" and name is not None and PARTITION.match(name))


def migrate_online(engine: Engine) -> None:
    """Run the migrations in one transaction, one upgrade at a time."""
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=current_app.extensions["migrate"].db.metadata,
            include_name=include_name,
        )
        with context.begin_transaction():
            _take_turns(connection)
            context.run_migrations()


def _take_turns(connection: Connection) -> None:
    # Inside begin_transaction: earlier, Alembic would take the open transaction for a foreign one.
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})")
    # Waiting for our turn may take long; waiting for a table must not, for the queue waits behind.
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")


if context.is_offline_mode():
    raise SystemExit("flask db upgrade needs a database: --sql is not supported")
migrate_online(current_app.extensions["migrate"].db.engine)
