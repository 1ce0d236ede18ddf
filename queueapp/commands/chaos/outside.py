"""The outside ledger: what ran, written by the handlers themselves into a file beside the queue.

Counts of runs come from here, never from the tables that are to be proved. One line a start and one
an end, each a single append: any number of processes may write, and a crash tears no line.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Literal, NamedTuple

What = Literal["start", "end"]


class Line(NamedTuple):
    """``mono`` is the machine's monotonic clock, the same in all processes; ``at`` its wall."""

    what: What
    job: int
    attempt: int
    pid: int
    thread: str
    mono: float
    at: float


def note(path: str | Path, what: What, job: int, attempt: int) -> None:
    """Append a line, in the process and the thread that run the job."""
    thread = threading.current_thread().name
    line = Line(what, job, attempt, os.getpid(), thread, time.monotonic(), time.time())
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Line]:
    """Everything that was noted, in the order of writing."""
    with path.open() as lines:
        return [Line(*json.loads(line)) for line in lines]
