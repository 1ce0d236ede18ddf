"""All readings, one after the other: what each is called, and what stands where one fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from queueapp.jobs.database import Database, connection_of
from queueapp.jobs.queries import bound_reads, database_now
from queueapp.jobs.system import server, sessions, storage
from queueapp.jobs.system.claim_cost import claim_cost
from queueapp.jobs.system.told import Asked, Finding, Said, System, Tone

Look = Callable[[Database, Asked], Said]


@dataclass(frozen=True)
class Reading:
    """One reading. ``on_sqlite``: what is said there instead; None: it is the same there."""

    code: str
    title: str
    look: Look
    on_sqlite: str | None


_NO_SESSIONS = "SQLite keeps no list of who has the file open"

READINGS = (
    Reading("read_only", "Writes", server.read_only,
            "SQLite takes writes while the file and its folder may be written; that is seen at the"
            " first write"),
    Reading("schema", "Schema", server.schema, None),
    Reading("locks", "Locks", sessions.locks,
            f"{_NO_SESSIONS}; one writer at a time, the others wait for a few seconds"),
    Reading("snapshot", "Oldest snapshot", sessions.snapshot,
            f"{_NO_SESSIONS}; a reader that stays open lets the -wal file beside it grow"),
    Reading("dead_rows", "Dead rows", storage.dead_rows,
            "SQLite keeps no dead rows: free pages are used again"),
    Reading("claim_cost", "Cost of a claim", claim_cost,
            "SQLite does not tell what a statement reads"),
    Reading("connections", "Connections", sessions.connections, _NO_SESSIONS),
    Reading("notify", "Notifications", sessions.notify,
            "SQLite has none: workers find jobs by looking"),
    Reading("days", "Days of the ledger", server.days,
            "SQLite has no partitions: retention deletes the old lines"),
    Reading("indexes", "Indexes", storage.indexes,
            "flask db check compares the file with the models"),
    Reading("sizes", "Sizes", storage.sizes,
            "The file holds both tables; du shows its size, with its -wal beside it"),
    Reading("ids", "Transaction ids", storage.ids, "SQLite has none that could run out"),
    Reading("clocks", "Clocks", server.clocks, None),
    Reading("settings", "Server", server.settings,
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

    A lost database is raised as ever. Each statement takes 2 s at most.
    """
    bound_reads(session)
    now = database_now(session)
    is_sqlite = connection_of(session).dialect.name == "sqlite"
    found = [Finding(r.code, r.title, _taken(session, r, asked, is_sqlite)) for r in READINGS]
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
