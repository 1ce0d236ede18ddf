"""The workloads that every queue is given, W1 to W6."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import processes
from bench.caller import Caller
from bench.drain import Drain, Load
from bench.errors import Failed, NotMeasured
from bench.place import Place
from bench.records import Records
from bench.spread import percentile
from bench.verification import verify

Figures = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of everything; a quick run has less."""

    lone: int = 2_000
    most_jobs: int = 20_000
    most_cap_s: float = 14.0
    # Beyond what settles the rate of a drain from a deep queue.
    deep_s: float = 8.0
    paced: int = 200
    paced_per_s: float = 20.0
    waiting: int = 500_000
    history: int = 1_000_000
    scheduled: int = 1_000_000
    # More than any queue does in that time.
    pinned: int = 1_000_000
    pinned_s: float = 60.0
    api: int = 4_000
    steady: int = 200_000
    limit_s: int = 2
    ladder: int = 200_000
    ladder_s: float = 5.0

    @property
    def fillings(self) -> dict[str, int]:
        """How many jobs lie in a place that is filled: by the name of the filling."""
        names = ("waiting", "history", "scheduled", "pinned", "ladder")
        return {name: getattr(self, name) for name in names}


FULL = Size()
QUICK = Size(
    lone=300, most_jobs=5_000, most_cap_s=3.0, paced=40, waiting=30_000, history=30_000,
    scheduled=30_000, pinned=60_000, pinned_s=4.0, api=800, steady=20_000, limit_s=1,
    ladder=80_000, ladder_s=2.0,
)  # fmt: skip


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
        """Let ``workers`` empty the queue, for ``cap_s`` seconds at most."""
        return self.drain_load(Load(jobs, cap_s, workers))

    def drain_load(self, load: Load) -> Figures:
        return Drain(self.caller, self.place, self.records, load).run()


def lone(subject: Subject) -> dict[str, Figures]:
    """W1: one producer, one job a commit."""
    subject.place.fresh()
    return {"w1": _rate(subject.caller.call("lone", subject.size.lone))}


def drain(subject: Subject) -> dict[str, Figures]:
    """W2, W3: a thousand jobs a commit; then one worker with concurrency 10 empties the queue."""
    return _bulk_and_drain(subject, "w3", workers=1)


def drain_by_two(subject: Subject) -> dict[str, Figures]:
    """W3b: the same with two workers."""
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
        _wait_for(subject.records, count + 1)
        if not worker.is_running():
            raise Failed(f"the worker died: {worker.said()}")
    finally:
        processes.stop([worker])
    # One more came first, and is not counted: it woke the worker.
    times, firsts = subject.records.runs(count + 1)
    slack = subject.caller.peer.cut_slack
    verify(times, finished=subject.place.done(count + 1), whole=slack == 0, slack=slack)
    waits = [
        (first - at) * 1000 for first, at in zip(firsts[:count], committed, strict=True) if first
    ]
    if not waits:
        raise Failed(f"no job ran: {worker.said()}")
    points = {f"p{point}": percentile(waits, point) for point in (50, 95, 99)}
    return {"w4": {**points, "worst": max(waits), "jobs": len(waits), "of": count}}


def _wait_for(records: Records, count: int) -> None:
    """A slow poll may still have some of them to find."""
    deadline = time.monotonic() + 7
    while records.progress()[0] < count and time.monotonic() < deadline:
        time.sleep(0.1)


def deep(subject: Subject) -> dict[str, Figures]:
    """W5: half a million jobs wait; one worker, 8 seconds."""
    subject.place.fresh("waiting")
    return {"w5": subject.drain(subject.size.waiting, min(subject.cap_s, subject.size.deep_s))}


def after_a_million(subject: Subject) -> dict[str, Figures]:
    """W6: a million jobs have ended before, where the queue keeps them."""
    store = subject.caller.peer.store
    if store.history is None:
        raise NotMeasured(store.no_history)
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
# What every queue is given in a quick round, the most telling first.
QUICKLY = ("w3", "w1", "w4")
