"""The days of the ledger: partitions of ``job_events`` by UTC day, made ahead.

A partition is made as a plain table and then attached: creating it in place would wait behind any
open reader and make every insert wait behind it. All of it gives up after 50 ms and is tried again.
"""

from __future__ import annotations

from datetime import date, timedelta

from queueapp.jobs.database import Database, run

DAYS_AHEAD = 14
WARN_BELOW_DAYS = 3

_DAYS = """
SELECT substring(c.relname FROM '[0-9]{8}$') AS day
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'job_events'::regclass AND c.relname ~ '^job_events_[0-9]{8}$'
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


def make(database: Database, day: date) -> None:
    """Make and attach the partition of ``day``, moving its rows out of the default partition.

    Run it in a transaction of its own. Raises the database's lock time-out (55P03) when somebody
    reads or writes for longer than 50 ms: try again later.
    """
    name = f"job_events_{day:%Y%m%d}"
    start, end = f"{day} 00:00+00", f"{day + timedelta(days=1)} 00:00+00"
    within = f"created_at >= '{start}' AND created_at < '{end}'"
    run(database, "SET LOCAL lock_timeout = '50ms'")
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
