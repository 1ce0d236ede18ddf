"""One run: probes, idle workers, producers, the drain; then what it cost and whether all ran."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine

from queueapp.commands.bench import latency, probes, producers
from queueapp.commands.bench.clock import Clock
from queueapp.commands.bench.place import Place
from queueapp.commands.bench.producers import Advance, Rate
from queueapp.commands.bench.progress import bar, line
from queueapp.commands.bench.report import Report
from queueapp.commands.bench.tables import Tables, Waits
from queueapp.commands.bench.workers import KINDS, Crew, Workers
from queueapp.connections import bind_address, connect, worker_needs
from queueapp.connections.bounds import Role
from queueapp.errors import SettingError
from queueapp.handlers import load
from queueapp.jobs.status import Status

PRODUCERS = 8
# Ours beside the workers' and the producers': the guard, the one that looks on, the notifier's.
_OWN = 3
_COUNT_EVERY_S = 0.25
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class Plan:
    """What was asked for; ``seconds`` for all of it."""

    jobs: int
    processes: int
    concurrency: int
    seconds: float

    @property
    def connections(self) -> int:
        """How many database connections it takes at most."""
        # No-op jobs use no sessions, and the settler one connection.
        needs = worker_needs(self.concurrency, listens=True, settles_beside=True)
        workers = self.processes * (needs.most - self.concurrency)
        return _OWN + max(workers + self.processes + 1, PRODUCERS)


def must_have_room(place: Place, plan: Plan) -> None:
    """Raise SettingError when the server has too few connections left: others need them too."""
    free = probes.free_connections(place.guard)
    if free < plan.connections:
        raise SettingError(
            f"the bench needs {plan.connections} database connections and the server has {free}"
            " left: lower --processes, or raise max_connections",
            setting="DATABASE_URL",
        )


class Run:
    """Make it, ``go``, read ``report``; all within ``stack``, which takes it away again."""

    def __init__(
        self, plan: Plan, place: Place, *, home: Path, folder: Path, clock: Clock, stack: ExitStack
    ) -> None:
        load((KINDS,))
        self._plan, self._clock = plan, clock
        self._runs: list[tuple[int, float]] = []
        self.report = Report(
            probes.conditions(place.guard, place.address.settings),
            processes=plan.processes,
            concurrency=plan.concurrency,
        )
        looking = connect(
            place.address, Role.COMMAND, autocommit=True, application_name="queueapp-bench"
        )
        stack.callback(looking.close)
        self._tables = Tables(looking)
        self._engine = create_engine(place.address.engine_url, pool_size=PRODUCERS + 1)
        bind_address(self._engine, place.address, Role.COMMAND)
        stack.callback(self._engine.dispose)
        self._workers = Workers(
            home=home, folder=folder, url=place.url, question=looking, clock=clock
        )
        stack.callback(self._workers.close)

    def go(self) -> None:
        """Measure everything. Raises Interrupted at a signal."""
        line("  migrating")
        self._workers.migrate()
        self.report.round_trip = probes.round_trip(self._tables.connection, self._clock)
        self.report.commit = probes.commit(self._tables.connection, self._clock)
        self._idle()
        after, log_before = self._tables.last_job(), self._tables.wal()
        self._produce()
        self._drain(after)
        log_after = self._tables.wal()
        if log_before is not None and log_after is not None:
            self.report.wal = log_after - log_before
        self._count()

    def _idle(self) -> None:
        jobs = min(latency.MOST, self._plan.jobs)
        crew = self._start("idle")
        crew.wait_until_ready()
        seconds = self._clock.share(1 / 6, jobs / latency.PER_SECOND + 1)
        with bar("idle to start", jobs) as advance:
            sent = latency.send(
                self._engine, jobs=jobs, seconds=seconds, clock=self._clock, advance=advance
            )
        self._wait_for_all(crew, lambda _: None, lambda: None)
        noted = crew.stop()
        self.report.latency = latency.between(sent, noted)
        self._runs += noted.runs

    def _produce(self) -> None:
        most = max(self._plan.jobs // 4, 1)
        self.report.one = self._lone("one producer", 1, most)
        self.report.many = self._lone(f"{PRODUCERS} producers", PRODUCERS, most)
        made = self.report.one.jobs + self.report.many.jobs
        rest = self._plan.jobs - made
        with bar("in bulk", rest) as advance:
            self.report.bulk = producers.bulk(
                self._engine, rest, seconds=self._clock.share(1 / 6, 60), clock=self._clock,
                advance=advance,
            )  # fmt: skip
        self.report.jobs = made + self.report.bulk.jobs

    def _lone(self, label: str, count: int, most: int) -> Rate:
        with bar(label, most) as advance:
            return producers.lone(
                self._engine, count, seconds=self._clock.share(1 / 30, 3), most=most,
                clock=self._clock, advance=advance,
            )  # fmt: skip

    def _drain(self, after: int) -> None:
        waits = Waits(self._tables.connection)
        crew = self._start("drain")
        with bar("drain", self.report.jobs) as advance:
            self._wait_for_all(crew, advance, waits.look)
        self.report.logging = waits.logging
        self.report.ran = crew.stop()
        self._runs += self.report.ran.runs
        self.report.drain = self._tables.drain(after)
        self.report.finished = self._tables.succeeded(after)

    def _start(self, name: str) -> Crew:
        return self._workers.start(name, self._plan.processes, self._plan.concurrency)

    def _wait_for_all(self, crew: Crew, advance: Advance, look: Callable[[], None]) -> None:
        """Until all jobs are done, or the time is over; ``look`` again and again meanwhile."""
        shown, first = 0, self._tables.counts()[Status.SUCCEEDED]
        while self._clock.left > 0:
            crew.must_run()
            began = time.monotonic()
            counts = self._tables.counts()
            done = counts[Status.SUCCEEDED] - first
            advance(done - shown)
            shown = done
            if counts.total() == counts[Status.SUCCEEDED]:
                return
            # Counting is work for the server too.
            again_at = time.monotonic() + max(_COUNT_EVERY_S, 20 * (time.monotonic() - began))
            while time.monotonic() < again_at:
                look()
                self._clock.wait(_LOOK_EVERY_S)

    def _count(self) -> None:
        self._engine.dispose()
        counts = self._tables.counts()
        self.report.dead = self._tables.dead(counts.total())
        self.report.all_finished = counts[Status.SUCCEEDED]
        self.report.problems = self._tables.problems(
            self._runs, unfinished=not self.report.complete
        )
