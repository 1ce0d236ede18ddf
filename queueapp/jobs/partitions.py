"""The days of the ledger: partitions of ``job_events`` by UTC day, made ahead and dropped by age.

A partition is made as a plain table and then attached: creating it in place would wait behind any
open reader and make every insert wait behind it. All of it gives up after 50 ms and is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy.exc import DBAPIError

from queueapp.jobs import control
from queueapp.jobs.carrying import carry
from queueapp.jobs.database import Database, run

DAYS_AHEAD = 14
WARN_BELOW_DAYS = 3
# Rows of the default partition that one statement removes.
BATCH = 500
_GIVE_UP = "SET LOCAL lock_timeout = '50ms'"

_DAYS = """
SELECT substring(c.relname FROM '[0-9]{8}$') AS day
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'job_events'::regclass AND c.relname ~ '^job_events_[0-9]{8}$'
"""

# The first day that is kept: of an older one no moment is younger than ``keep``.
_FIRST_KEPT = """
SELECT (clock_timestamp() AT TIME ZONE 'UTC' - make_interval(secs => %(keep)s))::date AS day
"""

# Switches stay: they are few, and to carry them over would need the lock that a drop takes.
_CLEAR_DEFAULT = """
DELETE FROM job_events_default WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM job_events_default
  WHERE created_at < %(day)s::date::timestamp AT TIME ZONE 'UTC'
    AND (job_id IS NOT NULL OR event <> ALL(%(switches)s))
  ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING id
"""

_TODAY = "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date AS day"


def days(database: Database) -> set[date]:
    """The UTC days that have a partition."""
    return {date.fromisoformat(row.day) for row in run(database, _DAYS)}


def days_ahead(database: Database) -> int:
    """How many days after today are covered without a gap; -1 when today itself is not."""
    today, have = today_utc(database), days(database)
    ahead = -1
    while today + timedelta(days=ahead + 1) in have:
        ahead += 1
    return ahead


def today_utc(database: Database) -> date:
    """The database's day."""
    day: date = run(database, _TODAY)[0].day
    return day


def missing(database: Database) -> list[date]:
    """The days from today to ``DAYS_AHEAD`` that have no partition yet."""
    today, have = today_utc(database), days(database)
    wanted = (today + timedelta(days=n) for n in range(DAYS_AHEAD + 1))
    return [day for day in wanted if day not in have]


@dataclass(frozen=True)
class Dropped:
    """A day that is gone, and the scopes of the switches that were carried over."""

    day: date
    carried: Sequence[str]


def expired(database: Database, keep: timedelta) -> list[date]:
    """The days with a partition of which no event is younger than ``keep``, the oldest first."""
    first: date = run(database, _FIRST_KEPT, keep=keep.total_seconds())[0].day
    return sorted(day for day in days(database) if day < first)


def drop_oldest(database: Database, keep: timedelta, *, actor: str) -> Dropped | None:
    """Drop the oldest expired day, whole; None when there is none (any more).

    Run it in a transaction of its own. Switches in force are carried over in it, under the lock
    that the drop needs anyway: whoever pauses or resumes meanwhile comes after. Raises the
    database's lock time-out (55P03) like ``make``.
    """
    run(database, _GIVE_UP)
    run(database, "LOCK TABLE ONLY job_events IN ACCESS EXCLUSIVE MODE")
    old = expired(database, keep)
    if not old:
        return None
    name = _name(old[0])
    carried = carry(database, name, actor=actor)
    run(database, f"DROP TABLE {name}")
    return Dropped(old[0], carried)


def clear_default(database: Database, keep: timedelta, *, limit: int = BATCH) -> int:
    """Remove up to ``limit`` events of expired days that had no partition; how many those were."""
    first = run(database, _FIRST_KEPT, keep=keep.total_seconds())[0].day
    switches = control.SWITCH_EVENTS
    return len(run(database, _CLEAR_DEFAULT, day=first, switches=switches, limit=limit))


def is_locked(error: DBAPIError) -> bool:
    """Whether it is the lock time-out: somebody was in the way."""
    return getattr(error.orig, "sqlstate", None) == "55P03"


def make(database: Database, day: date) -> None:
    """Make and attach the partition of ``day``, moving its rows out of the default partition.

    Run it in a transaction of its own. Raises the database's lock time-out (55P03) when somebody
    reads or writes for longer than 50 ms: try again later.
    """
    name = _name(day)
    start, end = f"{day} 00:00+00", f"{day + timedelta(days=1)} 00:00+00"
    within = f"created_at >= '{start}' AND created_at < '{end}'"
    run(database, _GIVE_UP)
    run(
        database,
        f"CREATE TABLE {name} (LIKE job_events INCLUDING DEFAULTS INCLUDING CONSTRAINTS,"
        f" CONSTRAINT ck_{name}_day CHECK ({within}))",
    )
    run(
        database,
        f"WITH moved AS (DELETE FROM job_events_default WHERE {within} RETURNING *)"
        f" INSERT INTO {name} SELECT * FROM moved",
    )
    run(
        database,
        f"ALTER TABLE job_events ATTACH PARTITION {name} FOR VALUES FROM ('{start}') TO ('{end}')",
    )


def _name(day: date) -> str:
    return f"job_events_{day:%Y%m%d}"
