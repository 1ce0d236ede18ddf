"""A drain: workers empty a full queue, from the first job's start to the last one's end."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench import processes
from bench.errors import Failed
from bench.place import Caller, Place
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


@dataclass
class _Used:
    workers: float
    server: float


class Drain:
    """One drain of ``load`` jobs that wait already; ``run`` returns its figures."""

    def __init__(self, caller: Caller, place: Place, records: Records, load: Load) -> None:
        self._caller, self._place, self._records, self._load = caller, place, records, load
        self._workers: list[processes.Process] = []

    def run(self) -> dict[str, Any]:
        """Start the workers, wait, stop them, verify. Raises Failed."""
        self._place.settle_down()
        before = self._place.finished()
        self._records.clear()
        try:
            self._workers = [
                self._caller.start_worker(number) for number in range(self._load.workers)
            ]
            figures = self._measure(before)
            figures["peak_mib"] = [round(processes.peak_mib(one.pid), 1) for one in self._workers]
        finally:
            processes.stop(self._workers)
        times, _ = self._records.runs(self._load.jobs)
        verify(
            times,
            finished=self._place.finished() - before,
            whole=figures["whole"],
            slack=self._caller.peer.cut_slack,
        )
        return figures

    def _measure(self, before: int) -> dict[str, Any]:
        first = self._wait_for_the_first()
        used = self._used()
        whole = self._wait_for_the_last(first)
        ended = time.time()
        done = self._place.finished() - before
        now = self._used()
        if not done:
            raise Failed(f"no job was done in {ended - first:.0f} s: {self._said()}")
        return {
            "rate": done / (ended - first),
            "jobs": done,
            "secs": ended - first,
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
        while self._records.progress()[0] < self._load.jobs:
            if time.time() - first > self._load.cap_s:
                return False
            if not any(one.is_running() for one in self._workers):
                raise Failed(f"the workers died: {self._said()}")
            time.sleep(_LOOK_EVERY_S)
        deadline = time.monotonic() + _LAST_END_S
        while self._place.unsettled() and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        return True

    def _used(self) -> _Used:
        workers = sum(processes.cpu_seconds(one.pid) for one in self._workers)
        return _Used(workers, processes.cpu_seconds(self._place.server))

    def _said(self) -> str:
        with suppress(IndexError):
            return self._workers[0].said().splitlines()[-1]
        return "and nothing was said"
