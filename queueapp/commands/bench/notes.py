"""What ran, noted by the handlers themselves beside the queue, and written down as they leave.

Each worker process keeps its notes in memory: a write a job would be measured as well.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RUN = struct.Struct("=qd")
_HEAD = struct.Struct("=qddqdd")
# So many runs between two looks at the processor's clock, which costs a system call.
_EVERY = 64


@dataclass
class Sample:
    """How far a process was: runs done, its own seconds of processor, seconds by the clock."""

    runs: int = 0
    cpu: float = 0.0
    at: float = 0.0


class Notes:
    """The runs of this process: the job's id and the instant, by the machine's monotonic clock."""

    def __init__(self) -> None:
        self._runs = bytearray()
        self._first = self._last = Sample()

    def add(self, job: int) -> None:
        """Note a run. Called from many threads; extending by one value is one step to all."""
        self._runs += _RUN.pack(job, time.monotonic())
        count = len(self._runs) // _RUN.size
        if not self._first.runs:
            self._first = Sample(count, time.process_time(), time.monotonic())
        elif count % _EVERY == 0:
            self._last = Sample(count, time.process_time(), time.monotonic())

    def write(self, folder: Path) -> None:
        """Leave them in ``folder``, if there are any."""
        if self._runs:
            head = [(one.runs, one.cpu, one.at) for one in (self._first, self._last)]
            path = folder / f"runs-{os.getpid()}"
            path.write_bytes(_HEAD.pack(*head[0], *head[1]) + self._runs)


@dataclass(frozen=True)
class Noted:
    """All notes of some processes. ``runs``: (job, instant) for every run; ``samples``: the first
    and the last of each process that had enough runs.
    """

    runs: list[tuple[int, float]]
    samples: list[tuple[Sample, Sample]]

    @property
    def cpu_per_run(self) -> float | None:
        """Seconds of processor a run; None for too few."""
        runs = sum(last.runs - first.runs for first, last in self.samples)
        cpu = sum(last.cpu - first.cpu for first, last in self.samples)
        return cpu / runs if runs else None


def read(folder: Path) -> Noted:
    """Read what the processes have left."""
    runs: list[tuple[int, float]] = []
    samples: list[tuple[Sample, Sample]] = []
    for path in sorted(folder.glob("runs-*")):
        data = path.read_bytes()
        found = _HEAD.unpack_from(data)
        first, last = Sample(*found[:3]), Sample(*found[3:])
        if last.runs > first.runs:
            samples.append((first, last))
        runs += _runs(data)
    return Noted(runs, samples)


def _runs(data: bytes) -> Iterator[tuple[int, float]]:
    yield from _RUN.iter_unpack(data[_HEAD.size :])
