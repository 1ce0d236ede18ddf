"""When a worker process should be replaced: after so many jobs, that much memory, or lost slots.

The one place that decides it. Memory that a library leaks and threads that never return go away
with their process, and with nothing else.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import threading
from collections.abc import Callable, Sized
from pathlib import Path

from queueapp.worker.terms import Terms

# Processes that began together must not all be replaced together.
SPREAD = 0.1
_STATM = Path("/proc/self/statm")


class Recycling:
    """Counts what one process has done. ``lost``: the slots whose threads do not come back."""

    def __init__(self, terms: Terms, lost: Callable[[], Sized]) -> None:
        spread = random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311
        self._max_jobs = max(round(terms.max_jobs * spread), 1) if terms.max_jobs else 0
        self._max_rss = terms.max_rss
        self._slots = terms.concurrency
        self._lost = lost
        self._lock = threading.Lock()
        self._jobs = 0

    def finished(self) -> bool:
        """Count a job whose handler has come back; whether there were enough of them."""
        with self._lock:
            self._jobs += 1
            return 0 < self._max_jobs <= self._jobs

    def reason(self) -> str | None:
        """Why this process should be replaced, in words; None while it should not."""
        if 0 < self._max_jobs <= self._jobs:
            return f"{self._jobs} jobs are done"
        lost = len(self._lost())
        if lost and lost * 2 >= self._slots:
            return f"{lost} of {self._slots} slots are lost to handlers that do not return"
        # Before the first job the memory is what a replacement would need as well.
        if self._max_rss and self._jobs and (used := resident()) > self._max_rss:
            return f"it uses {used >> 20} MB of memory, the limit is {_megabytes(self._max_rss)}"
        return None

    def too_tight(self) -> str | None:
        """Why its first job would be the last of every process; None when it need not be."""
        if not self._max_rss or (used := resident()) <= self._max_rss:
            return None
        return (
            f"--max-rss is {_megabytes(self._max_rss)}, a process that has done nothing yet uses"
            f" {used >> 20} MB: each will be replaced after its first job"
        )


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.4g} MB"


def resident() -> int:
    """The bytes of memory that this process has in use; where that is not told, its highest."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
