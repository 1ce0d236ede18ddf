"""Take back what was lost with its holder. Every worker sweeps, none leads."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from uuid import UUID

from queueapp.jobs import transitions
from queueapp.jobs.transitions.sweeper import BATCH
from queueapp.worker import story
from queueapp.worker.line import Line
from queueapp.worker.terms import Terms

# Leases are claimed in about the order of their start; nothing older than this far behind the
# oldest one alive is expected, and once a minute all of them are looked at.
MARGIN = timedelta(seconds=60)
FULL_EVERY_S = 60.0


class Sweeper:
    """Knows where to begin: the dead entries before the oldest lease alive are not walked again."""

    def __init__(self, terms: Terms, line: Line) -> None:
        self._terms = terms
        self._line = line
        self._oldest: datetime | None = None
        self._full_at = 0.0
        self._locked: set[UUID] = set()

    def low(self) -> datetime | None:
        """Where to begin looking, None for the very beginning."""
        if self._oldest is None or time.monotonic() >= self._full_at:
            self._full_at = time.monotonic() + FULL_EVERY_S
            return None
        return self._oldest - MARGIN

    def saw(self, oldest_alive: datetime | None) -> None:
        """Remember the oldest lease that is still alive."""
        self._oldest = oldest_alive

    def sweep(self, low: datetime | None) -> int:
        """Expire what is overdue, batch by batch; how many leases that were.

        A row that was locked at the last look is left for one more: its holder could neither renew
        nor settle, and is to write first what it has finished.
        """
        total, spare = 0, self._locked
        with self._line.use() as connection:
            self._locked = transitions.locked_overdue(connection, low=low)
        while True:
            with self._line.transaction() as connection:
                expired = transitions.expire(
                    connection,
                    actor=f"sweeper:{self._terms.name}",
                    backoff=self._terms.backoff,
                    job_timeout_s=self._terms.job_timeout,
                    low=low,
                    spare=spare | self._locked,
                )
            for lease in expired:
                story.expired(lease)
            total += len(expired)
            if len(expired) < BATCH:
                return total
