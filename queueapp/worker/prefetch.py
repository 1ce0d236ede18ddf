"""How many claims may wait in this process beyond its free threads.

Prefetching saves round trips while jobs are tiny, and is wrong for all others: a claim that waits
here could run elsewhere. So the surplus is at most what the slowest kind among the last runs lets
this process finish in 50 ms, nothing until 20 runs are measured, nothing while one of them failed.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque

from queueapp.worker.terms import Terms

MEASURED_RUNS = 20
WINDOW_S = 0.05
# A claim that has waited this long is given back.
PATIENCE_S = 0.25


class Prefetch:
    """The allowance of one worker: handler threads measure, the pump asks."""

    def __init__(self, terms: Terms) -> None:
        self._most = terms.prefetch
        self._threads = terms.concurrency
        self._runs: deque[tuple[str, float, bool]] = deque(maxlen=MEASURED_RUNS)
        self._lock = threading.Lock()

    def measured(self, kind: str, ran_s: float, *, well: bool) -> None:
        """Take a finished run into account."""
        with self._lock:
            self._runs.append((kind, ran_s, well))

    def forget(self) -> None:
        """Begin to measure anew: what was prefetched had to be given back."""
        with self._lock:
            self._runs.clear()

    def allowance(self) -> int:
        """How many claims beyond the threads are right now."""
        if self._most == 0:
            return 0
        with self._lock:
            runs = list(self._runs)
        if len(runs) < MEASURED_RUNS or not all(well for _, _, well in runs):
            return 0
        return min(self._most, int(self._threads * WINDOW_S / max(_slowest(runs), 1e-6)))


def _slowest(runs: list[tuple[str, float, bool]]) -> float:
    """The mean of the slowest kind: one run alone may have waited for the interpreter."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    for kind, ran_s, _ in runs:
        by_kind[kind].append(ran_s)
    return max(sum(times) / len(times) for times in by_kind.values())
