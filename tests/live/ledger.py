"""The outside ledger: what ran, written by the handlers themselves into a file of the test's own.

Counts of runs come from here, never from the tables under test. One line a start and one an end,
each a single append, so that any number of processes can write and a crash tears no line.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# The variables by which a worker process learns where the test keeps its files.
LEDGER = "JOURNEY_LEDGER"
GATES = "JOURNEY_GATES"


@dataclass(frozen=True)
class Line:
    """``mono`` is the machine's monotonic clock, the same in all processes; ``at`` its wall."""

    what: Literal["start", "end"]
    job: int
    attempt: int
    pid: int
    thread: str
    mono: float
    at: float


def note(what: Literal["start", "end"], job: int, attempt: int) -> None:
    """Append a line. Called in the worker's process."""
    line = Line(
        what, job, attempt, os.getpid(), threading.current_thread().name,
        time.monotonic(), time.time(),
    )  # fmt: skip
    text = json.dumps(line.__dict__) + "\n"
    descriptor = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


class Ledger:
    """Reads what handlers have noted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def lines(self) -> list[Line]:
        """All of it, in the order of writing."""
        return [Line(**json.loads(text)) for text in self.path.read_text().splitlines()]

    def starts(self, job: int | None = None) -> list[Line]:
        """The starts, of one job or of all."""
        return [x for x in self.lines() if x.what == "start" and job in (None, x.job)]

    def ends(self, job: int | None = None) -> list[Line]:
        """The ends, of one job or of all."""
        return [x for x in self.lines() if x.what == "end" and job in (None, x.job)]

    def starts_by_job(self) -> Counter[int]:
        """How often each job was started."""
        return Counter(line.job for line in self.starts())
