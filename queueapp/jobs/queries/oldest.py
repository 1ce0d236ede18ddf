"""The oldest transaction: while it lives, no dead version of a row can be removed behind it."""

from __future__ import annotations

from queueapp.jobs.database import Database, connection_of, run

# Old enough to say so: the queue's own transactions last milliseconds.
OLD_S = 1800.0

# Only what holds a snapshot or has written holds anything back, and only within its own database.
# What other roles do is seen by members of pg_read_all_stats; prepared transactions by everybody.
_OLDEST = """
SELECT extract(epoch FROM clock_timestamp() - min(began))::float8 AS age_s FROM (
  SELECT xact_start AS began FROM pg_stat_activity
  WHERE datname = current_database() AND backend_type = 'client backend'
    AND pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
  UNION ALL
  SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()
) held"""


def oldest_transaction_s(database: Database) -> float | None:
    """How long ago it began, None when there is none but ours."""
    if connection_of(database).dialect.name != "postgresql":
        return None
    age: float | None = run(database, _OLDEST)[0].age_s
    return age


def old_transaction(database: Database) -> str | None:
    """A warning when it began too long ago."""
    age = oldest_transaction_s(database)
    if age is None or age < OLD_S:
        return None
    return (
        f"a transaction on this database has been open for {age / 60:.0f} min: until it ends the"
        " tables grow, and claims read more (pg_stat_activity, pg_prepared_xacts)"
    )
