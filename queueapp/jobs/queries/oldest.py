"""The oldest transaction: while it lives, no dead version of a row can be removed behind it."""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.jobs.database import Database, connection_of, run

# Old enough to say so: the queue's own transactions last milliseconds.
OLD_S = 1800.0

# Only what holds a snapshot or has written holds anything back: a snapshot within its own database,
# and what has written also elsewhere, for every snapshot that is taken meanwhile begins behind it.
# What other roles do is seen by members of pg_read_all_stats; prepared transactions by everybody.
# ``hidden``: connections of theirs, of which nothing is told but that they are there.
_OLDEST = """
SELECT extract(epoch FROM clock_timestamp() - min(began))::float8 AS age_s,
  (SELECT count(*) FROM pg_stat_activity
   WHERE datname = current_database() AND usesysid IS NOT NULL AND backend_type IS NULL) AS hidden,
  quote_ident(current_user) AS role
FROM (
  SELECT xact_start AS began FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
    AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL AND datname = current_database())
  UNION ALL
  SELECT prepared FROM pg_prepared_xacts
) held"""


@dataclass(frozen=True)
class Transactions:
    """How long ago the oldest one began, None when there is none but ours.

    ``hidden``: connections of other roles whose transactions ``role``, which is ours, may not see.
    """

    oldest_s: float | None
    hidden: int = 0
    role: str = ""


def transactions(database: Database) -> Transactions:
    """What is known of the transactions that keep dead rows."""
    if connection_of(database).dialect.name != "postgresql":
        return Transactions(None)
    [row] = run(database, _OLDEST)
    return Transactions(row.age_s, row.hidden, row.role)


def oldest_transaction_s(database: Database) -> float | None:
    """How long ago the oldest one began that we may see, None when there is none but ours."""
    return transactions(database).oldest_s


def old_transaction(database: Database) -> str | None:
    """A warning when it began too long ago."""
    age = oldest_transaction_s(database)
    if age is None or age < OLD_S:
        return None
    return (
        f"a transaction on this server has been open for {age / 60:.0f} min: until it ends the"
        " tables grow, and claims read more (pg_stat_activity, pg_prepared_xacts)"
    )
