"""What the database takes for nothing, and for a commit; and under which conditions."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from statistics import median
from typing import Any, LiteralString

import psycopg
from psycopg import pq

from queueapp.commands.bench.clock import Clock
from queueapp.config import Settings
from queueapp.version import VERSION

_MOST = 300
_SERVER = (
    "server_version", "synchronous_commit", "fsync", "full_page_writes", "wal_level",
    "shared_buffers", "max_connections",
)  # fmt: skip
# Of others' sessions only some see the state; then it is unknown how many are active.
_OTHERS = """
SELECT count(*), count(*) FILTER (WHERE state = 'active'), bool_or(state IS NULL)
FROM pg_stat_activity
WHERE datid IS NOT NULL AND pid <> pg_backend_pid()
  AND coalesce(backend_type, 'client backend') = 'client backend'
"""
_FREE = """
SELECT current_setting('max_connections')::int
  - current_setting('superuser_reserved_connections')::int - count(*)
FROM pg_stat_activity WHERE coalesce(backend_type, 'client backend') = 'client backend'
"""
_WHERE = "SELECT coalesce(host(inet_server_addr()), '127.0.0.1') IN ('127.0.0.1', '::1')"


def round_trip(connection: psycopg.Connection, clock: Clock) -> float:
    """Seconds that an answer takes: the median of many."""
    return _median(connection, "SELECT 1", clock)


def commit(connection: psycopg.Connection, clock: Clock) -> float:
    """Seconds that a small insert takes until it is committed, its round trip included."""
    connection.execute("CREATE TABLE bench_commit (id bigint)")
    taken = _median(connection, "INSERT INTO bench_commit VALUES (1)", clock)
    connection.execute("DROP TABLE bench_commit")
    return taken


def _median(connection: psycopg.Connection, statement: LiteralString, clock: Clock) -> float:
    taken: list[float] = []
    until = time.monotonic() + clock.share(1 / 60, 1.0)
    while len(taken) < _MOST and (not taken or time.monotonic() < until):
        began = time.perf_counter()
        connection.execute(statement)
        taken.append(time.perf_counter() - began)
    return median(taken)


def free_connections(connection: psycopg.Connection) -> int:
    """How many more connections the server takes from ordinary roles."""
    row = connection.execute(_FREE).fetchone()
    return int(row[0]) if row else 0


def conditions(connection: psycopg.Connection, settings: Settings) -> dict[str, Any]:
    """Everything that the figures depend on, by the name that it has in the report."""
    found: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "product_version": VERSION,
        "python": platform.python_version(),
        "psycopg": f"{psycopg.__version__} ({pq.__impl__}, libpq {_libpq()})",
        "cpus_here": _cpus(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name in _SERVER:
        row = connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
        found[name] = row[0] if row else None
    found["server_here"] = bool((connection.execute(_WHERE).fetchone() or (False,))[0])
    others, active, hidden = connection.execute(_OTHERS).fetchone() or (0, 0, False)
    found["other_connections"] = others
    found["other_connections_active"] = None if hidden else active
    return found | {
        "prefetch": settings.prefetch,
        "lease_s": settings.lease,
        "poll_s": settings.poll,
        "log_level": settings.log_level,
    }


def _libpq() -> str:
    return f"{pq.version() // 10000}.{pq.version() % 10000}"


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
