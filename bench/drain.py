"""A drain: workers empty a full queue, from the first job's start to the last one's end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import processes
from bench.caller import Caller
from bench.errors import Failed
from bench.place import Place
from bench.records import Records
from bench.verification import verify

_LOOK_EVERY_S = 0.005
_FIRST_JOB_S = 40.0
# From the start of the last job until the store has its end.
_LAST_END_S = 10.0


@dataclass(frozen=True)
class Load:
    """How much there is to do: ``jobs`` numbered from 0, ``cap_s`` seconds at most."""

    jobs: int
    cap_s: float
    workers: int = 1
    # Told again and again how many have begun, and by which processes.
    watch: Callable[[int, list[int]], None] | None = None


@dataclass(frozen=True)
class _Used:
    workers: float
    server: float


class Drain:
    """One drain of jobs that wait already; ``run`` returns its figures."""

    def __init__(self, caller: Caller, place: Place, records: Records, load: Load) -> None:
        self._caller, self._place, self._records, self._load = caller, place, records, load
        self._workers: list[processes.Process] = []

    def run(self) -> dict[str, Any]:
        """Start the workers, wait, stop them, verify. Raises Failed."""
        self._place.settle_down()
        self._records.clear()
        try:
            for number in range(self._load.workers):
                self._workers.append(self._caller.start_worker(number))
            figures = self._measure()
            figures["peak_mib"] = max(processes.peak_mib(one.pid) for one in self._workers)
        finally:
            processes.stop(self._workers)
        times, _ = self._records.runs(self._load.jobs)
        figures["ran"] = verify(
            times,
            finished=self._place.done(self._load.jobs),
            whole=figures["whole"],
            slack=self._caller.peer.cut_slack,
        )
        return figures

    def _measure(self) -> dict[str, Any]:
        first = self._wait_for_the_first()
        used = self._used()
        whole = self._wait_for_the_last(first)
        ended, now = time.time(), self._used()
        done = self._place.done(self._load.jobs)
        if not done:
            raise Failed(f"no job was done in {ended - first:.0f} s: {self._said()}")
        return self._figures(done, ended - first, whole=whole, used=used, now=now)

    def _figures(
        self, done: int, secs: float, *, whole: bool, used: _Used, now: _Used
    ) -> dict[str, Any]:
        """What ``done`` jobs took; ``used`` and ``now``: the CPU time before and after."""
        return {
            "rate": done / secs,
            "jobs": done,
            "secs": secs,
            "whole": whole,
            "cpu_worker": (now.workers - used.workers) / done * 1000,
            "cpu_server": (now.server - used.server) / done * 1000,
        }

    def _wait_for_the_first(self) -> float:
        deadline = time.monotonic() + _FIRST_JOB_S
        while time.monotonic() < deadline and any(one.is_running() for one in self._workers):
            _, first = self._records.progress()
            if first:
                return first
            time.sleep(_LOOK_EVERY_S)
        raise Failed(f"no job ran: {self._said()}")

    def _wait_for_the_last(self, first: float) -> bool:
        """Whether all were done before the cap."""
        while (begun := self._records.progress()[0]) < self._load.jobs:
            if time.time() - first > self._load.cap_s:
                return False
            if not any(one.is_running() for one in self._workers):
                raise Failed(f"the workers died: {self._said()}")
            self._tell(begun)
            time.sleep(_LOOK_EVERY_S)
        deadline = time.monotonic() + _LAST_END_S
        while self._place.unsettled() and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        self._tell(begun)
        return True

    def _tell(self, begun: int) -> None:
        if self._load.watch:
            self._load.watch(begun, [one.pid for one in self._workers])

    def _used(self) -> _Used:
        workers = sum(processes.cpu_seconds(one.pid) for one in self._workers)
        return _Used(workers, processes.cpu_seconds(self._place.server))

    def _said(self) -> str:
        lines = self._workers[0].said().splitlines()
        return lines[-1] if lines else "and nothing was said"
