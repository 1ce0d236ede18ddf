"""The outside ledger: what ran, written by the handlers themselves into a file of the test's own.

Counts of runs come from here, never from the tables under test. ``flask chaos`` notes in the same
way.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from queueapp.commands.chaos import outside
from queueapp.commands.chaos.outside import Line

__all__ = ["GATES", "LEDGER", "Ledger", "Line", "note"]

# The variables by which a worker process learns where the test keeps its files.
LEDGER = "JOURNEY_LEDGER"
GATES = "JOURNEY_GATES"


def note(what: outside.What, job: int, attempt: int) -> None:
    """Append a line. Called in the worker's process."""
    outside.note(os.environ[LEDGER], what, job, attempt)


class Ledger:
    """Reads what handlers have noted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def lines(self) -> list[Line]:
        """All of it, in the order of writing."""
        return outside.read(self.path)

    def starts(self, job: int | None = None) -> list[Line]:
        """The starts, of one job or of all."""
        return [x for x in self.lines() if x.what == "start" and job in (None, x.job)]

    def ends(self, job: int | None = None) -> list[Line]:
        """The ends, of one job or of all."""
        return [x for x in self.lines() if x.what == "end" and job in (None, x.job)]

    def starts_by_job(self) -> Counter[int]:
        """How often each job was started."""
        return Counter(line.job for line in self.starts())
