"""A ledger that came from another server with ``pg_dump``: its lines carry that one's transactions.

Their numbers mean nothing here: those ahead of this server's would be kept from the feed, and from
the numbers of each minute, until it has counted up to them. Set to 0 they come first, by their ids.
"""

from __future__ import annotations

from queueapp.jobs.database import Database, run

_NEWEST = "SELECT coalesce(max(id), 0) AS id FROM job_events"
_PARTS = """
SELECT c.oid::regclass::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'job_events'::regclass ORDER BY c.relname
"""


def newest_line(database: Database) -> int:
    """The highest id of the ledger: what is written from now on has its number from this server."""
    return int(run(database, _NEWEST)[0].id)


def parts(database: Database) -> list[str]:
    """The partitions of the ledger, as names that SQL takes."""
    return [row.name for row in run(database, _PARTS)]


def forget_transactions(database: Database, part: str, *, upto: int) -> int:
    """Set the transactions of a partition's lines up to an id to 0; how many those were.

    It may be run again at any time. Each partition in a transaction of its own, or they all wait
    for the largest.
    """
    statement = f"UPDATE {part} SET xid = '0' WHERE xid <> '0' AND id <= %(upto)s"
    counted = f"WITH changed AS ({statement} RETURNING 1) SELECT count(*) AS n FROM changed"
    return int(run(database, counted, upto=upto)[0].n)
