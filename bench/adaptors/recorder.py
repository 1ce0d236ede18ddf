"""What ran: a file for each worker process, mapped into memory, read while it is written.

A head (runs in all, when the first began), then a pair for each job (runs, when the first began),
all doubles of the machine. Counting costs a microsecond, and the bench sees how far a drain is
without asking the database. ``harness.mjs`` writes the same.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from pathlib import Path

CAPACITY = 1_500_000
PAIR = struct.Struct("=dd")
SIZE = PAIR.size * (CAPACITY + 1)


class Recorder:
    """Counts the runs of each job of this process."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._pid = 0
        self._lock = threading.Lock()
        self._map: mmap.mmap

    def open(self) -> None:
        """Make the file of this process, before the first job is timed."""
        with self._lock:
            # Its first ten jobs begin in ten threads at once.
            if self._pid != os.getpid():
                with (self._folder / f"{os.getpid()}.runs").open("w+b") as file:
                    file.truncate(SIZE)
                    self._map = mmap.mmap(file.fileno(), SIZE)
                self._pid = os.getpid()

    def hit(self, job: int) -> None:
        """Job number ``job`` has begun."""
        if self._pid != os.getpid():
            self.open()
        with self._lock:
            now = time.time()
            self._count((job + 1) * PAIR.size, now)
            self._count(0, now)

    def _count(self, place: int, now: float) -> None:
        runs, first = PAIR.unpack_from(self._map, place)
        PAIR.pack_into(self._map, place, runs + 1, first or now)


rec = Recorder(os.environ.get("BENCH_RECORDS", "."))
