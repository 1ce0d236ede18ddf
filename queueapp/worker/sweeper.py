"""Take back what was lost with its holder. Every worker sweeps, none leads."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from queueapp.jobs import transitions
from queueapp.jobs.transitions.sweeper import BATCH
from queueapp.worker import story
from queueapp.worker.line import Line
from queueapp.worker.terms import Terms


class Sweeper:
    """Remembers which rows were locked at the last look."""

    def __init__(self, terms: Terms, line: Line) -> None:
        self._terms = terms
        self._line = line
        self._locked: set[UUID] = set()

    def sweep(self, low: datetime | None) -> int:
        """Expire what is overdue of the claims since ``low``, batch by batch; how many that were.

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
