"""What the tables of the throw-away schema say when all is over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString, NamedTuple

import psycopg

_COUNTS = "SELECT status, count(*) FROM jobs GROUP BY status"
_SUCCEEDED_AFTER = "SELECT count(*) FROM jobs WHERE status = 'succeeded' AND id > %s"
_LAST = "SELECT coalesce(max(id), 0) FROM jobs"
_NOT_ONCE = """
SELECT id, status, attempts FROM jobs WHERE NOT (status = 'succeeded' AND attempts = 1)
ORDER BY id
"""
_SUCCEEDED = "SELECT id FROM jobs WHERE status = 'succeeded'"

# From when every process had claimed something: their starts do not count. A transaction of a
# worker is a turn: it settles and claims.
_DRAIN = """
WITH event AS (
  SELECT event, actor, created_at AS at, xid FROM job_events
  WHERE job_id > %(after)s AND event IN ('claimed', 'succeeded')
),
begun AS (SELECT actor, min(at) AS at FROM event WHERE event = 'claimed' GROUP BY actor),
first AS (SELECT count(*) AS workers, max(at) AS at FROM begun)
SELECT first.workers,
  count(*) FILTER (WHERE event.event = 'succeeded' AND event.at > first.at) AS finished,
  coalesce(extract(epoch FROM max(event.at) - first.at), 0)::float8 AS seconds,
  count(DISTINCT event.xid) FILTER (WHERE event.at > first.at) AS turns
FROM first LEFT JOIN event ON true
GROUP BY first.workers, first.at
"""

# Our workers' sessions are those that began with them: yours have the same name.
_AT_WORK = """
SELECT count(*), count(*) FILTER (WHERE lower(wait_event)
  IN ('walsync', 'walwrite', 'walinitsync', 'walinitwrite', 'syncrep'))
FROM pg_stat_activity
WHERE starts_with(application_name, 'queueapp-work') AND state = 'active' AND backend_start > %s
"""
_CLOCK = "SELECT clock_timestamp()"

_WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
_STATISTICS = """
SELECT coalesce(sum(n_tup_ins) FILTER (WHERE relname = 'jobs'), 0)::bigint,
  coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_hot_upd), 0)::bigint,
  coalesce(sum(n_tup_del), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
FROM pg_stat_user_tables
WHERE schemaname = current_schema() AND (relname = 'jobs' OR relname LIKE 'job\\_events%')
"""
_ENOUGH = 10
# The server counts with a delay.
_COUNTED_WITHIN_S = 3.0


class Drain(NamedTuple):
    """``finished`` jobs within ``seconds`` and so many ``turns``, by so many ``workers``."""

    workers: int
    finished: int
    seconds: float
    turns: int


class Dead(NamedTuple):
    """Row versions of both tables: inserted jobs, updates, those in place, deletions, and what is
    still there to be cleaned.
    """

    inserted: int
    updated: int
    in_place: int
    deleted: int
    left: int


class Waits:
    """Looks again and again at what the server does for the workers that start from now on."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._since = connection.execute(_CLOCK).fetchone()
        self._at_work = self._logging = 0

    def look(self) -> None:
        """Look once."""
        row = self._connection.execute(_AT_WORK, self._since).fetchone()
        if row is not None:
            self._at_work += row[0]
            self._logging += row[1]

    @property
    def logging(self) -> float | None:
        """The share of its work that waits for the log; None when it was seldom at work."""
        return self._logging / self._at_work if self._at_work >= _ENOUGH else None


@dataclass
class Tables:
    """Asks through one connection, which commits by itself."""

    connection: psycopg.Connection

    def counts(self) -> Counter[str]:
        """How many jobs there are, by status."""
        return Counter(dict(self.connection.execute(_COUNTS).fetchall()))

    def last_job(self) -> int:
        """The newest id."""
        return int(self._one(_LAST))

    def succeeded(self, after: int) -> int:
        """How many of the jobs after ``after`` have."""
        row = self.connection.execute(_SUCCEEDED_AFTER, (after,)).fetchone()
        return int(row[0]) if row else 0

    def drain(self, after: int) -> Drain:
        """How the jobs after ``after`` were run, by the ledger and the database's clock."""
        row = self.connection.execute(_DRAIN, {"after": after}).fetchone()
        assert row is not None
        return Drain(*row)

    def wal(self) -> int | None:
        """Where the server's log ends, in bytes; None where the role may not ask."""
        try:
            return int(self._one(_WAL))
        except psycopg.Error:
            return None

    def dead(self, jobs: int) -> Dead | None:
        """What the server has counted, once it has seen so many ``jobs``; None if it never does."""
        deadline = time.monotonic() + _COUNTED_WITHIN_S
        while True:
            row = self.connection.execute(_STATISTICS).fetchone()
            if row is not None and row[0] >= jobs:
                return Dead(*row)
            if time.monotonic() > deadline:
                return None
            time.sleep(0.1)

    def problems(self, runs: Iterable[tuple[int, float]], *, unfinished: bool) -> list[str]:
        """What did not run exactly once and succeed. ``unfinished``: waiting jobs are none."""
        ran = Counter(job for job, _ in runs)
        rows = self.connection.execute(_NOT_ONCE).fetchall()
        found = [
            f"job {id} is {status} after {attempts} attempts"
            for id, status, attempts in rows
            if not (unfinished and status == "queued" and attempts == 0)
        ]
        found += [f"job {job} ran {count} times" for job, count in ran.items() if count != 1]
        succeeded = {row[0] for row in self.connection.execute(_SUCCEEDED).fetchall()}
        found += [f"job {job} succeeded and was not run" for job in sorted(succeeded - set(ran))]
        found += [f"job {job} was run and did not succeed" for job in sorted(set(ran) - succeeded)]
        return found

    def _one(self, statement: LiteralString) -> int:
        row = self.connection.execute(statement).fetchone()
        assert row is not None
        return int(row[0])
