"""How soon an idle worker begins a job: one at a time, from the end of the enqueue to its start."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Engine

from queueapp.commands.bench import producers
from queueapp.commands.bench.clock import Clock
from queueapp.commands.bench.notes import Noted
from queueapp.commands.bench.producers import Advance

PER_SECOND = 20
MOST = 200
# Connections, prepared statements and plans are made for the first ones: these are not counted.
_WARM_UP = 5


@dataclass(frozen=True)
class Latency:
    """Seconds, the shortest first."""

    waits: tuple[float, ...]

    def at(self, part: float) -> float | None:
        """The wait that ``part`` of the jobs did not exceed; None without any."""
        if not self.waits:
            return None
        return self.waits[min(int(part * len(self.waits)), len(self.waits) - 1)]


def send(
    engine: Engine, *, jobs: int, seconds: float, clock: Clock, advance: Advance
) -> dict[int, float]:
    """Send jobs at an even pace; when each was committed, by the machine's monotonic clock."""
    for _ in range(_WARM_UP):
        producers.one(engine)
        clock.wait(1 / PER_SECOND)
    sent: dict[int, float] = {}
    began = time.monotonic()
    for number in range(jobs):
        clock.wait(began + number / PER_SECOND - time.monotonic())
        if time.monotonic() - began > seconds:
            break
        job = producers.one(engine)
        sent[job] = time.monotonic()
        advance(1)
    return sent


def between(sent: dict[int, float], noted: Noted) -> Latency:
    """What was sent and what has run. A start before the commit's answer came counts as at once."""
    starts: dict[int, float] = {}
    for job, at in noted.runs:
        starts.setdefault(job, at)
    waits = (max(starts[job] - at, 0.0) for job, at in sent.items() if job in starts)
    return Latency(tuple(sorted(waits)))
