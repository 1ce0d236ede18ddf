"""All readings, one after the other: what each is called, and what stands where one fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from queueapp.jobs import partitions
from queueapp.jobs.database import Database, connection_of
from queueapp.jobs.queries import bound_reads, database_now
from queueapp.jobs.queries.blocked import BLOCKED_S
from queueapp.jobs.queries.oldest import OLD_S
from queueapp.jobs.system import activity, claim_cost, server, storage
from queueapp.jobs.system.told import Asked, Finding, Said, System, Tone

Look = Callable[[Database, Asked], Said]


@dataclass(frozen=True)
class Reading:
    """One reading, and from where on it is careful and bad, in words.

    ``on_sqlite``: what is said there instead; None: it is the same there.
    """

    code: str
    title: str
    look: Look
    careful: str
    bad: str
    on_sqlite: str | None


BUDGET_S = 6.0
_NO_CONNECTIONS = "SQLite keeps no list of who has the file open"

READINGS = (
    Reading("read_only", "Writes", server.read_only, "", "it takes none",
            "SQLite takes writes while the file and its folder may be written; that is seen at the"
            " first write"),
    Reading("schema", "Schema", server.schema, "", "another one", None),
    Reading("locks", "Locks", activity.locks, f"{BLOCKED_S:.0f} s",
            f"{activity.BLOCKED_LONG_S:.0f} s; less while a job is due for"
            f" {activity.LINE_WAITS_S:.0f} s",
            f"{_NO_CONNECTIONS}; one writer at a time, the others wait for a few seconds"),
    Reading("snapshot", "Oldest snapshot", activity.snapshot,
            f"{activity.CAREFUL_S:.0f} s; a slot: {activity.CAREFUL_BEHIND:,} transactions",
            f"{OLD_S / 60:.0f} min; a slot: {activity.BAD_BEHIND:,} transactions",
            f"{_NO_CONNECTIONS}; a reader that stays open lets the -wal file beside it grow"),
    Reading("dead_rows", "Dead rows", storage.dead_rows,
            f"{storage.CAREFUL_DEAD:,} and {storage.CAREFUL_TIMES} times what starts an autovacuum",
            f"{storage.BAD_DEAD:,} and {storage.BAD_TIMES} times that; autovacuum off",
            "SQLite keeps no dead rows: free pages are used again"),
    Reading("claim_cost", "Cost of a claim", claim_cost.claim_cost,
            f"{claim_cost.CAREFUL_PAGES:,} pages, or {claim_cost.LEAST} and {claim_cost.RISE} times"
            " the hour's median",
            f"{claim_cost.BAD_PAGES:,} pages", "SQLite does not tell what a statement reads"),
    Reading("connections", "Connections", activity.connections,
            f"{activity.CAREFUL_SHARE:.0%} of the limit that is nearest",
            f"{activity.BAD_SHARE:.0%}", _NO_CONNECTIONS),
    Reading("notify", "Notifications", activity.notify, f"{activity.CAREFUL_FULL:.0%} full",
            f"{activity.BAD_FULL:.0%} full", "SQLite has none: workers find jobs by looking"),
    Reading("days", "Days of the ledger", server.days,
            f"fewer than {partitions.WARN_BELOW_DAYS} ahead, or lines in the default partition",
            "none for today", "SQLite has no partitions: retention deletes the old lines"),
    Reading("indexes", "Indexes", storage.indexes, "", "one is missing or not valid",
            "flask db check compares the file with the models"),
    Reading("sizes", "Sizes", storage.sizes, "indexes twice their table, from 1 GiB on", "",
            "The file holds both tables; du shows its size, with its -wal beside it"),
    Reading("ids", "Transaction ids", storage.ids, f"{storage.CAREFUL_AGE:,} not frozen",
            f"{storage.BAD_AGE:,} not frozen", "SQLite has none that could run out"),
    Reading("clocks", "Clocks", server.clocks, f"{server.CLOCK_CAREFUL_S:.0f} s apart",
            f"{server.CLOCK_BAD_S:.0f} s apart", None),
    Reading("settings", "Server", server.settings, "synchronous_commit off",
            "autovacuum, track_counts, fsync or full_page_writes off",
            "SQLite is a library in each process, with the settings of this product"),
)  # fmt: skip

_REASONS = {
    "57014": "it took longer than 2 s and was stopped",
    "55P03": "a table is locked",
    "42501": "this role may not read it",
    "42P01": "a table of it is not there",
}


def report(session: Session, asked: Asked) -> System:
    """Take every reading in turn; the worst ones come first in what is told.

    A lost database is raised as ever. Each statement takes 2 s at most, and after BUDGET_S nothing
    more is begun: whoever looks at a sick database does not add to its load for long.
    """
    until = time.monotonic() + BUDGET_S
    bound_reads(session)
    now = database_now(session)
    is_sqlite = connection_of(session).dialect.name == "sqlite"

    def taken(reading: Reading) -> Said:
        if time.monotonic() > until:
            return Said(Tone.UNKNOWN, "– the readings before it took too long")
        return _taken(session, reading, asked, is_sqlite)

    found = [Finding(one.code, one.title, taken(one)) for one in READINGS]
    return System(now, sorted(found, key=lambda one: list(Tone).index(one.said.tone)))


def _taken(session: Session, reading: Reading, asked: Asked, is_sqlite: bool) -> Said:
    if is_sqlite and reading.on_sqlite is not None:
        return Said(Tone.UNKNOWN, f"Cannot be known here: {reading.on_sqlite}.")
    try:
        return reading.look(session, asked)
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if error.connection_invalidated or (state is None and not is_sqlite):
            raise
        # The failed transaction takes no further statement; the next reading begins a new one.
        session.rollback()
        bound_reads(session)
        why = _REASONS.get(state or "", f"the database refused it ({state})")
        return Said(Tone.UNKNOWN, f"– {why}")
