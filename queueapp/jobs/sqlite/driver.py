"""A connection of the driver's: how its transactions begin."""

from __future__ import annotations

import sqlite3

AUTOCOMMIT, READ_COMMITTED, REPEATABLE_READ = "AUTOCOMMIT", "READ COMMITTED", "REPEATABLE READ"


class Driver(sqlite3.Connection):
    """A connection that knows how its transactions are to begin."""

    mode = READ_COMMITTED

    def begin_for(self, *, writes: bool) -> None:
        """Begin, if this statement is the one to begin with. Waits for another writer."""
        if self.in_transaction or self.mode == AUTOCOMMIT:
            return
        if self.mode == REPEATABLE_READ:
            self.execute("BEGIN")
        elif writes:
            self.execute("BEGIN IMMEDIATE")
