"""Who keeps the queue's connections waiting for a lock, as far as this role may see it."""

from __future__ import annotations

from dataclasses import dataclass

from queueapp.jobs.database import Database, connection_of, run

# Shorter waits are everyday.
BLOCKED_S = 1.0

# Looking up who blocks whom stops the lock manager for a moment: for a few of them only. pid 0 is a
# prepared transaction. Who holds a lock comes before those that wait in front of us for the same.
BLOCKED = """
SELECT w.application, w.waits_s, by.pid, b.application_name AS by_application,
  b.usename::text AS by_role, b.state AS by_state,
  extract(epoch FROM clock_timestamp() - b.xact_start)::float8 AS by_age_s,
  CASE WHEN %(sees_queries)s THEN left(b.query, 300) END AS query
FROM (
  SELECT a.pid, a.application_name AS application,
    extract(epoch FROM clock_timestamp() - coalesce(a.query_start, a.state_change))::float8
      AS waits_s
  FROM pg_stat_activity a
  WHERE a.datname = current_database() AND a.wait_event_type = 'Lock'
    AND starts_with(a.application_name, 'queueapp-')
  ORDER BY a.query_start LIMIT 20
) w
CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS by(pid)
LEFT JOIN pg_stat_activity b ON b.pid = by.pid
ORDER BY b.wait_event_type IS NOT DISTINCT FROM 'Lock', w.waits_s DESC LIMIT 50"""


@dataclass(frozen=True)
class Blocker:
    """Who holds what ``waiting`` connections of ours wait for, the longest for ``waits_s``.

    ``pid`` 0: a prepared transaction. ``open_s``: how long its transaction has been open; None:
    hidden from this role.
    """

    waiting: int
    waits_s: float
    pid: int
    application: str | None
    role: str | None
    open_s: float | None


def blocker(database: Database) -> Blocker | None:
    """Who blocks most, None while nobody does, or none that we may see."""
    if connection_of(database).dialect.name != "postgresql":
        return None
    rows = [row for row in run(database, BLOCKED, sees_queries=False) if row.waits_s >= BLOCKED_S]
    if not rows:
        return None
    first = rows[0]
    return Blocker(
        waiting=len({(row.application, row.waits_s) for row in rows}),
        waits_s=max(row.waits_s for row in rows),
        pid=first.pid,
        application=first.by_application,
        role=first.by_role,
        open_s=first.by_age_s,
    )
