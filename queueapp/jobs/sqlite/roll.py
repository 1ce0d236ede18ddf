"""Who lives, and who holds running jobs, where lists of values cannot be made in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made
from queueapp.jobs.sqlite.values import clock
from queueapp.jobs.sqlite.why import _FIRST_SIGNS, _WORKERS
from queueapp.jobs.why import statement
from queueapp.jobs.workers import statements

_RUNNING = """
SELECT id, kind, locked_by, started_at, lease_expires_at FROM jobs
WHERE status = 'running' ORDER BY claimed_at, id LIMIT :most_running
"""
_NAMES = (
    *("name", "held", "started", "overdue", "lease_ends_at"),
    *("longest_id", "longest_kind", "longest_at"),
)


@instead_of(statement.RECENT)
def _recent(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    near = {"lately": clock() - timedelta(seconds=given["live_s"])}
    first = {row.name: row.first_seen_at for row in fetch(connection, _FIRST_SIGNS, **given)}
    rows = fetch(connection, _WORKERS, **near, most_workers=given["most_signs"])
    signs = [{**row._mapping, "first_seen_at": first.get(row.name)} for row in rows]
    return made(("whole", "signs"), [(len(rows) < given["most_signs"], signs)])


@instead_of(statements.HOLDERS)
def _holders(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    holders: dict[str, list[Row[Any]]] = {}
    for row in fetch(connection, _RUNNING, **given):
        holders.setdefault(row.locked_by, []).append(row)
    now = clock()
    return made(_NAMES, [_summed(name, rows, now) for name, rows in holders.items()])


def _summed(name: str, rows: list[Row[Any]], now: Any) -> tuple[Any, ...]:
    first = min(rows, key=lambda row: (row.started_at is None, str(row.started_at), row.id))
    return (
        name,
        len(rows),
        sum(1 for row in rows if row.started_at),
        sum(1 for row in rows if row.lease_expires_at <= now),
        min(row.lease_expires_at for row in rows),
        first.id,
        first.kind,
        first.started_at,
    )
