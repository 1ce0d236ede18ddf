"""How fast jobs are created: through the API that producers use, each with its commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from queueapp.commands.bench.clock import Clock
from queueapp.commands.bench.workers import KIND
from queueapp.handlers import EnqueueRequest, enqueue, enqueue_many

BATCH = 1000
_TICK_S = 0.05
_WHO = "bench"

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Rate:
    """Jobs created by so many producers at once, within so many seconds."""

    producers: int
    jobs: int
    seconds: float

    @property
    def per_second(self) -> float:
        """The rate."""
        return self.jobs / self.seconds


def one(engine: Engine) -> int:
    """Create one job; its id, once the commit has been answered."""
    with Session(engine) as session:
        made = enqueue(session, KIND, producer=_WHO, actor=_WHO)
        session.commit()
    return made.id


class _Producers:
    """Threads of this program, as a web process has them; each creates one job after the other."""

    def __init__(self, engine: Engine, count: int, most: int) -> None:
        self.failed: list[Exception] = []
        self.made = [0] * count
        self.ended_at = 0.0
        self._engine, self._most = engine, most
        self._stop = threading.Event()
        # The caller is one more of them.
        self.start = threading.Barrier(count + 1)
        self.threads = [
            threading.Thread(target=self._produce, args=(place,), daemon=True)
            for place in range(count)
        ]

    def _produce(self, place: int) -> None:
        try:
            # Connected before the clock runs.
            with self._engine.connect():
                pass
            self.start.wait()
            while self.made[place] < self._most and not self._stop.is_set():
                one(self._engine)
                self.made[place] += 1
        except Exception as error:  # told by the caller's thread
            self.failed.append(error)
            self.start.abort()
        self.ended_at = time.monotonic()

    def stop(self) -> None:
        self._stop.set()
        for thread in self.threads:
            thread.join()
        # A broken barrier is only the echo of what broke it.
        for error in self.failed:
            if not isinstance(error, threading.BrokenBarrierError):
                raise error


def lone(
    engine: Engine, producers: int, *, seconds: float, most: int, clock: Clock, advance: Advance
) -> Rate:
    """Create jobs one by one from so many threads, for ``seconds`` or up to ``most`` of them."""
    group = _Producers(engine, producers, max(1, most // producers))
    for thread in group.threads:
        thread.start()
    began = time.monotonic()
    try:
        with suppress(threading.BrokenBarrierError):
            group.start.wait()
        began = time.monotonic()
        shown = 0
        while any(thread.is_alive() for thread in group.threads):
            clock.wait(_TICK_S)
            advance(-shown + (shown := sum(group.made)))
            if time.monotonic() - began > seconds:
                break
    finally:
        group.stop()
    return Rate(producers, sum(group.made), group.ended_at - began)


def bulk(engine: Engine, jobs: int, *, seconds: float, clock: Clock, advance: Advance) -> Rate:
    """Create ``jobs`` by the thousand, a commit each; fewer if that takes too long."""
    made, began = 0, time.monotonic()
    while made < jobs and time.monotonic() - began < seconds and clock.left > 0:
        count = min(BATCH, jobs - made)
        with Session(engine) as session:
            requests = [EnqueueRequest(kind=KIND)] * count
            enqueue_many(session, requests, producer=_WHO, actor=_WHO)
            session.commit()
        made += count
        advance(count)
    return Rate(1, made, time.monotonic() - began)
