"""The workloads that every queue is given, W1 to W6."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import processes
from bench.drain import Drain, Load
from bench.errors import Failed
from bench.place import Caller, Place
from bench.records import Records
from bench.statistics import percentile
from bench.verification import verify

Figures = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of everything; a quick run has less."""

    lone: int = 2_000
    most_jobs: int = 20_000
    most_cap_s: float = 15.0
    paced: int = 300
    paced_per_s: float = 20.0
    waiting: int = 500_000
    history: int = 1_000_000


FULL = Size()
QUICK = Size(lone=400, most_jobs=10_000, most_cap_s=3.0, paced=60, waiting=100_000, history=100_000)


@dataclass(frozen=True)
class Subject:
    """One peer, its place and what it takes to measure it."""

    caller: Caller
    place: Place
    records: Records
    size: Size

    @property
    def jobs(self) -> int:
        return min(self.caller.peer.jobs, self.size.most_jobs)

    @property
    def cap_s(self) -> float:
        return min(self.caller.peer.cap_s, self.size.most_cap_s)

    def drain(self, jobs: int, cap_s: float, workers: int = 1) -> Figures:
        return Drain(self.caller, self.place, self.records, Load(jobs, cap_s, workers)).run()


def lone(subject: Subject) -> dict[str, Figures]:
    """W1: one producer, one job a commit."""
    subject.place.fresh()
    return {"w1": _rate(subject.caller.call("lone", subject.size.lone))}


def drain(subject: Subject) -> dict[str, Figures]:
    """W2, W3: a thousand jobs a commit; then one worker with concurrency 10 empties the queue."""
    return _bulk_and_drain(subject, "w3", workers=1)


def drain_by_two(subject: Subject) -> dict[str, Figures]:
    """W3b: the same with two workers."""
    if not subject.caller.peer.two_workers:
        return {}
    return _bulk_and_drain(subject, "w3b", workers=2)


def _bulk_and_drain(subject: Subject, name: str, workers: int) -> dict[str, Figures]:
    subject.place.fresh()
    bulk = _rate(subject.caller.call("bulk", subject.jobs))
    return {"w2": bulk, name: subject.drain(subject.jobs, subject.cap_s, workers)}


def latency(subject: Subject) -> dict[str, Figures]:
    """W4: jobs come one by one to an idle worker; from the commit to the start of the handler."""
    subject.place.fresh()
    subject.records.clear()
    count, rate = subject.size.paced, subject.size.paced_per_s
    worker = subject.caller.start_worker()
    try:
        time.sleep(subject.caller.peer.warm_up_s)
        committed = subject.caller.call("paced", count, rate)["at"]
        deadline = time.monotonic() + 7
        while subject.records.progress()[0] < count and time.monotonic() < deadline:
            time.sleep(0.1)
        if not worker.is_running():
            raise Failed(f"the worker died: {worker.said()}")
    finally:
        processes.stop([worker])
    times, firsts = subject.records.runs(count)
    verify(
        times, finished=subject.place.finished(), whole=False, slack=subject.caller.peer.cut_slack
    )
    waits = [(first - at) * 1000 for first, at in zip(firsts, committed, strict=True) if first]
    if not waits:
        raise Failed(f"no job ran: {worker.said()}")
    points = {f"p{point}": percentile(waits, point) for point in (50, 95, 99)}
    return {"w4": {**points, "worst": max(waits), "jobs": len(waits), "of": count}}


def deep(subject: Subject) -> dict[str, Figures]:
    """W5: half a million jobs wait; one worker, 15 seconds."""
    subject.place.fresh("waiting")
    return {"w5": subject.drain(subject.size.waiting, subject.size.most_cap_s)}


def after_a_million(subject: Subject) -> dict[str, Figures]:
    """W6: a million jobs have ended before, where the queue keeps them."""
    if subject.caller.peer.store.history is None:
        return {}
    subject.place.fresh("history")
    subject.caller.call("bulk", subject.jobs)
    return {"w6": subject.drain(subject.jobs, subject.cap_s)}


def _rate(answer: Figures) -> Figures:
    return {"rate": answer["n"] / answer["secs"], "jobs": answer["n"]}


WORKLOADS: dict[str, Callable[[Subject], dict[str, Figures]]] = {
    "w1": lone,
    "w3": drain,
    "w3b": drain_by_two,
    "w4": latency,
    "w5": deep,
    "w6": after_a_million,
}
