"""Kind by kind: what stands where, and what the last hour brought.

No index knows kinds, and no total is kept of them. So each look is at a bounded number of jobs and
says when there are more, and what moved is told from the minute's statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from queueapp.jobs import holds
from queueapp.jobs.database import Database, object_or_null, run
from queueapp.jobs.queries.bounds import COUNT_LIMIT, SCAN_LIMIT
from queueapp.jobs.verdict.minutes import LATE_S, SHORTEST, Minute, instant

# Those that failed last lie in as many pages, which nothing else keeps in memory.
FAILED_LIMIT = 3_000
# Kinds of one look; those with the fewest jobs are left out.
MOST_KINDS = 500
# With many kinds on hold, so many jobs of each are counted at least.
LEAST_COUNTED = 100
# Lines of the minute's statistics: a busy queue fills several a minute.
MOST_LINES = 600
HOUR = timedelta(hours=1)

_TALLY = """
WITH looked AS MATERIALIZED (SELECT kind FROM jobs WHERE {rows} LIMIT %(bound)s)
SELECT kind, count(*) AS jobs, (SELECT count(*) FROM looked) AS total
FROM looked GROUP BY kind ORDER BY count(*) DESC, kind LIMIT %(most)s
"""
_WAITING = _TALLY.format(
    rows="status = 'queued' ORDER BY priority DESC, available_at, created_at, id"
)
_RUNNING = _TALLY.format(rows="status = 'running' ORDER BY claimed_at, id")
_FAILED = _TALLY.format(
    rows="status = 'failed' AND finished_at IS NOT NULL ORDER BY finished_at DESC, id DESC"
)

# ORDER BY names the index.
_HELD = """
SELECT k.kind, j.jobs FROM unnest(%(kinds)s::text[]) AS k(kind)
CROSS JOIN LATERAL (SELECT count(*) AS jobs FROM (
  SELECT 1 FROM jobs j WHERE j.status = 'held' AND j.held_for = 'kind' AND j.kind = k.kind
  ORDER BY j.kind, j.id LIMIT %(bound)s) b) j
"""

# Whole days as parameters, so that the planner leaves the other partitions out.
_HOUR = f"""
WITH lines AS MATERIALIZED (
  SELECT id, created_at, data->>'since' AS since, data->'kinds' AS kinds FROM job_events
  WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue'
    AND created_at >= %(lately)s::timestamptz AND created_at < %(tomorrow)s::timestamptz
  ORDER BY id DESC LIMIT %(lines)s
),
hour AS MATERIALIZED (SELECT * FROM lines WHERE created_at > %(since)s::timestamptz),
counts AS (
  SELECT k.key AS kind, p.part, c.key AS name, sum(c.value::bigint) AS n
  FROM hour CROSS JOIN LATERAL jsonb_each({object_or_null("hour.kinds")}) k
  CROSS JOIN LATERAL (VALUES ('events', k.value->'events'), ('waits', k.value->'wait'),
    ('runs', k.value->'run'),
    ('times', jsonb_build_object('later', k.value->'later', 'due', k.value->'due'))
  ) p(part, counts)
  CROSS JOIN LATERAL jsonb_each_text({object_or_null("p.counts")}) c
  GROUP BY 1, 2, 3
)
SELECT (SELECT created_at FROM hour ORDER BY id DESC LIMIT 1) AS upto,
  (SELECT coalesce(since, to_jsonb(created_at)#>>'{{}}')
   FROM hour ORDER BY id LIMIT 1) AS since,
  (SELECT jsonb_object_agg(kind, parts) FROM (
     SELECT kind, jsonb_object_agg(part, of_part) AS parts FROM (
       SELECT kind, part, jsonb_object_agg(name, n) AS of_part FROM counts GROUP BY 1, 2) c
     GROUP BY 1) k) AS kinds
"""


# What is shown may have been read a minute ago.
_LATE = timedelta(seconds=LATE_S + 60)


@dataclass(frozen=True)
class Tally:
    """Jobs by kind. ``is_cut``: there are more than were looked at, so each number is a least.

    ``most``: a number above it says that there are more. ``more_kinds``: there may be others, with
    fewer jobs.
    """

    jobs: Mapping[str, int] = field(default_factory=dict)
    is_cut: bool = False
    most: int = COUNT_LIMIT
    more_kinds: bool = False


@dataclass(frozen=True)
class Hour:
    """What the lines of the last hour say of each kind; ``since`` None: there is no line."""

    since: datetime | None = None
    upto: datetime | None = None
    kinds: Mapping[str, Minute] = field(default_factory=dict)

    def is_over(self, now: datetime) -> bool:
        """Whether nothing has been counted for so long that more may have happened since."""
        return self.upto is not None and now - self.upto > _LATE

    def of(self, kind: str) -> Minute | None:
        """What was counted of a kind, which may be nothing; None without any line."""
        if self.since is None or self.upto is None:
            return None
        return self.kinds.get(kind) or Minute(self.upto, self.since)


def waiting(database: Database) -> Tally:
    """The queued jobs, those COUNT_LIMIT that are first in the line."""
    return _tally(database, _WAITING, COUNT_LIMIT)


def running(database: Database) -> Tally:
    """The running jobs, those COUNT_LIMIT that were claimed first."""
    return _tally(database, _RUNNING, COUNT_LIMIT)


def failed(database: Database) -> Tally:
    """The failed jobs, those FAILED_LIMIT that failed last."""
    return _tally(database, _FAILED, FAILED_LIMIT)


def held(database: Database) -> Tally:
    """The jobs held for their kinds, each kind counted up to a bound: the lower, the more kinds.

    Jobs held by themselves are not counted: no hold of a kind moves them.
    """
    kinds = [row.kind for row in run(database, holds.HELD_KINDS)][:MOST_KINDS]
    most = min(COUNT_LIMIT, max(LEAST_COUNTED, SCAN_LIMIT // max(1, len(kinds))))
    rows = run(database, _HELD, kinds=kinds, bound=most + 1) if kinds else ()
    jobs = {row.kind: row.jobs for row in rows}
    return Tally(jobs, most=most, more_kinds=len(kinds) >= MOST_KINDS)


def last_hour(database: Database, now: datetime) -> Hour:
    """The minute's statistics of the last hour, by the database's clock ``now``."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    terms = {"lately": today - day, "tomorrow": today + 2 * day, "since": now - HOUR}
    row: Any = run(database, _HOUR, lines=MOST_LINES, **terms)[0]
    if row.upto is None:
        return Hour()
    since = min(instant(row.since), row.upto)
    if row.upto - since < SHORTEST:
        return Hour()
    found = {kind: _minute(parts, since, row.upto) for kind, parts in (row.kinds or {}).items()}
    return Hour(since, row.upto, found)


def _tally(database: Database, statement: str, bound: int) -> Tally:
    rows: Any = run(database, statement, bound=bound + 1, most=MOST_KINDS)
    jobs = {row.kind: row.jobs for row in rows}
    is_cut = bool(rows) and rows[0].total > bound
    return Tally(jobs, is_cut, more_kinds=len(jobs) >= MOST_KINDS)


def _minute(parts: Mapping[str, Mapping[str, Any]], since: datetime, upto: datetime) -> Minute:
    events = {name: int(n) for name, n in parts.get("events", {}).items()}
    waits, runs = (
        {int(bucket): int(n) for bucket, n in parts.get(name, {}).items()}
        for name in ("waits", "runs")
    )
    times = parts.get("times", {})
    later, due = (int(times.get(name) or 0) for name in ("later", "due"))
    return Minute(upto, since, events, waits=waits, runs=runs, later=later, due=due)
