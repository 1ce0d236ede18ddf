"""What the verdict does not look at, read for the metrics: bounded statements, each on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from queueapp.jobs.database import Database, connection_of, run
from queueapp.jobs.queries import bound_reads, database_now, failed_since, status_counts
from queueapp.jobs.queries.attempted import tried
from queueapp.jobs.status import Status
from queueapp.jobs.system import activity, server, storage
from queueapp.jobs.why.facts import days_around

HOUR = timedelta(hours=1)
# Lines that are read, and how far back those go that the recent numbers are made from.
LINES = 8
RECENT = timedelta(seconds=330)
# What each reading is called: of any database, and of a server alone.
PARTS_ANYWHERE = ("schema", "counts", "failed", "statistics")
PARTS = (*PARTS_ANYWHERE, "dead_rows", "connections", "notify")
_EVER = datetime(2000, 1, 1, tzinfo=UTC)

# The newest lines, but those of a drill, whose sums begin anew: counters never fall. Days that are
# not asked for are left out.
LAST_LINES = """
SELECT created_at, data->'totals' AS totals, data->'claim' AS claim FROM job_events
WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue' AND NOT data ? 'drill'
  AND created_at >= %(lately)s::timestamptz AND created_at < %(tomorrow)s::timestamptz
ORDER BY id DESC LIMIT %(lines)s"""


@dataclass(frozen=True)
class Statistics:
    """What the minute's lines tell.

    ``at``: when the newest was written; None: there is none. ``totals``: as in ``minute_totals``.
    ``waits``, ``runs``: how many lately took at most 2^n ms, by n. ``claim_pages``: None where it
    was not measured.
    """

    at: datetime | None = None
    totals: Mapping[str, Any] = field(default_factory=dict)
    waits: Mapping[int, int] = field(default_factory=dict)
    runs: Mapping[int, int] = field(default_factory=dict)
    claim_pages: int | None = None


@dataclass(frozen=True)
class Dead:
    """Dead rows of a table, and how many of them begin an autovacuum. Estimates."""

    table: str
    rows: int
    trigger: float


@dataclass(frozen=True)
class Measured:
    """Each part None where it failed, or is nothing that this database has (see ``ok``).

    ``counts``, ``failed``: up to COUNT_LIMIT + 1; ``schema``: the revisions; ``connections``:
    taken, and of how many; ``ok``: whether each reading that was tried came to something.
    """

    now: datetime
    counts: Mapping[Status, int] | None = None
    failed: int | None = None
    statistics: Statistics | None = None
    schema: Sequence[str] | None = None
    dead_rows: Sequence[Dead] | None = None
    connections: tuple[int, int] | None = None
    notify: float | None = None
    ok: Mapping[str, bool] = field(default_factory=dict)
    is_server: bool = True


def measure(database: Database) -> Measured:
    """Read all parts, in at most ten statements, within a transaction that it bounds.

    A lost database is raised as ever.
    """
    bound_reads(database)
    now = database_now(database)
    is_server = connection_of(database).dialect.name == "postgresql"
    names = PARTS if is_server else PARTS_ANYWHERE
    found: dict[str, Any] = {name: _tried(database, name, now) for name in names}
    ok = {name: part is not None for name, part in found.items()}
    return Measured(now, ok=ok, is_server=is_server, **found)


def _tried(database: Database, name: str, now: datetime) -> Any:
    return tried(database, lambda it: _READS[name](it, now)).value


def _statistics(database: Database, now: datetime) -> Statistics:
    days = days_around(now, now)
    asked = {"lately": days["lately"], "tomorrow": days["tomorrow"], "lines": LINES}
    # Without a worker since yesterday the last line is an older one: counters stay what they were.
    lines = run(database, LAST_LINES, **asked) or run(
        database, LAST_LINES, **{**asked, "lately": _EVER, "lines": 1}
    )
    if not lines:
        return Statistics()
    newest = lines[0]
    span = [line.totals or {} for line in lines if newest.created_at - line.created_at <= RECENT]
    return Statistics(
        at=newest.created_at,
        totals=newest.totals or {},
        waits=_added(span, "wait"),
        runs=_added(span, "run"),
        claim_pages=(newest.claim or {}).get("pages"),
    )


def _added(span: Sequence[Mapping[str, Any]], part: str) -> dict[int, int]:
    """What came from the last of the sums to the first; nothing where they began anew meanwhile."""
    added = Counter(span[0].get(part) or {})
    added.subtract(span[-1].get(part) or {})
    is_whole = all(part in sums for sums in span) and min(added.values(), default=0) >= 0
    return {int(bucket): number for bucket, number in added.items() if number} if is_whole else {}


def _connections(database: Database) -> tuple[int, int]:
    [row] = run(database, activity.CONNECTIONS)
    _, _, used, most = activity.nearest_limit(row)
    return used, most


_READS: dict[str, Callable[[Database, datetime], Any]] = {
    "schema": lambda it, _: [row.version_num for row in run(it, server.REVISIONS)],
    "counts": lambda it, _: status_counts(it),
    "failed": lambda it, _: failed_since(it, HOUR),
    "statistics": _statistics,
    "dead_rows": lambda it, _: [Dead(r.name, r.dead, r.trigger) for r in run(it, storage.DEAD)],
    "connections": lambda it, _: _connections(it),
    "notify": lambda it, _: float(run(it, activity.NOTIFY)[0].used),
}
