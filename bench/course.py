"""The course of a run: services, rounds, every peer in turn. What fails is written down."""

from __future__ import annotations

import argparse
import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import limit
from bench.caller import Caller
from bench.conditions import conditions
from bench.errors import Failed, Missing, NotMeasured
from bench.installation import Installation
from bench.own_workloads import OWN_WORKLOADS
from bench.peer import Peer
from bench.place import Database, Memory, Place
from bench.progress import Progress
from bench.raw import Raw, steps_done
from bench.records import Records
from bench.services import Postgres, Redis
from bench.table import PEERS
from bench.workloads import FULL, QUICK, QUICKLY, WORKLOADS, Figures, Size, Subject

LIMITS = ("one", "batch")
# A quick round must end within five minutes; what is under way then may take a while.
QUICK_S = 250.0


@dataclass
class Course:
    """One run. ``go`` returns the file of raw results; ``failures`` counts what went wrong."""

    peers: list[Peer]
    workloads: list[str]
    for_others: list[str]
    rounds: int
    scratch: Path
    binaries: Path | None
    quick: bool
    partial: bool
    # The workloads were named: then each queue has them all.
    named: bool = False
    # A run to complete.
    again: Path | None = None
    failures: int = 0
    _done: set[tuple[int, str, str]] = field(default_factory=set)
    _missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: argparse.Namespace) -> Course:
        return cls(
            peers=[peer for peer in PEERS if peer.name in options.only],
            workloads=options.chosen,
            for_others=options.for_others,
            rounds=options.rounds,
            scratch=options.scratch,
            binaries=options.pg_bindir,
            quick=options.quick,
            partial=options.partial,
            named=bool(options.workloads),
            again=options.again,
        )

    @property
    def size(self) -> Size:
        return QUICK if self.quick else FULL

    def go(self) -> Path:
        """Measure everything; stop what was started, however this ends."""
        self._done = steps_done(self.again) if self.again else set()
        self._progress = Progress(sum(1 for _ in self._steps()))
        self._installation = Installation(self.scratch, self._progress.say)
        with ExitStack() as services:
            services.enter_context(_alone_in(self.scratch))
            self._install()
            self._began = time.monotonic()
            self._postgres = services.enter_context(Postgres(self.scratch, self.binaries))
            self._redis = self._start_redis(services)
            self._records = Records(self.scratch / "records")
            self._raw = Raw(self.scratch / "results", self._conditions(), self.again)
            for round_, peer, workload in self._steps():
                self._step(round_, peer, workload)
        return self._raw.path

    def _steps(self) -> Iterator[tuple[int, Peer | None, str]]:
        """Round by round every peer in turn, the limit before each queue.

        In a quick round a workload comes to all before the next one does.
        """
        for round_ in range(self.rounds):
            steps = list(self._quick_steps() if self.quick else self._whole_steps())
            left = [
                (peer, one) for peer, one in steps if (round_, peer.name, one) not in self._done
            ]
            before = None
            for peer, one in left:
                queue = "all" if self.quick else peer.program
                if queue != before:
                    yield from ((round_, None, which) for which in LIMITS)
                before = queue
                yield round_, peer, one

    def _quick_steps(self) -> Iterator[tuple[Peer, str]]:
        for workload in sorted(self.workloads, key=_most_telling_first):
            yield from ((p, workload) for p in self.peers if workload in self._workloads_of(p))

    def _whole_steps(self) -> Iterator[tuple[Peer, str]]:
        for peer in self.peers:
            yield from ((peer, one) for one in self._workloads_of(peer))

    def _workloads_of(self, peer: Peer) -> list[str]:
        if peer.name == "ours":
            return self.workloads
        measured = WORKLOADS if self.named else peer.workloads
        return [workload for workload in self.for_others if workload in measured]

    def _must_have_time(self, round_: int) -> None:
        if self.quick and time.monotonic() - self._began > QUICK_S * (round_ + 1):
            raise NotMeasured("the five minutes of a quick round were over: try a quieter machine")

    def _install(self) -> None:
        for peer in self.peers:
            try:
                self._installation.ready(peer)
            except Missing as reason:
                self._missing[peer.name] = str(reason)

    def _start_redis(self, services: ExitStack) -> Redis | None:
        users = [peer for peer in self.peers if peer.store.redis]
        if not users:
            return None
        try:
            return services.enter_context(Redis(self.scratch))
        except Missing as reason:
            self._missing |= {peer.name: str(reason) for peer in users}
            return None

    def _conditions(self) -> dict[str, object]:
        versions = {"PostgreSQL": self._postgres.version}
        if self._redis:
            versions["Redis"] = self._redis.version
        found = conditions(self.peers, self._installation, versions, self.size)
        kinds = {
            "quick": self.quick,
            "partial": self.partial,
            "named": self.workloads if self.named else None,
        }
        return {**found, **kinds, "rounds": self.rounds, "workloads": self.workloads}

    def _step(self, round_: int, peer: Peer | None, workload: str) -> None:
        name = peer.name if peer else "limit"
        self._progress.begin(name, workload)
        try:
            self._must_have_time(round_)
            results = self._measure(peer, workload)
        except NotMeasured as reason:
            results = {workload: {"status": "none", "why": str(reason)}}
        except Missing as reason:
            results = {workload: {"status": "missing", "why": str(reason)}}
        except Exception as error:  # whatever it is, the others are still measured
            self.failures += 1
            why = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
            results = {workload: {"status": "failed", "why": " ".join(why.split())[:400]}}
        for key, figures in results.items():
            line = self._raw.add(name, key, round_, step=workload, **figures)
            self.failures += line["status"] == "failed" and key != workload
            self._progress.tell(line)

    def _measure(self, peer: Peer | None, workload: str) -> dict[str, Figures]:
        if peer is None:
            seconds = self.size.limit_s
            measured = limit.measure(
                self._postgres, workload, seconds=seconds, scratch=self.scratch
            )
            return {workload: measured}
        if peer.name in self._missing:
            raise Missing(self._missing[peer.name])
        every: dict[str, Callable[[Subject], dict[str, Figures]]] = {**WORKLOADS, **OWN_WORKLOADS}
        with self._place_of(peer) as (caller, place):
            return every[workload](Subject(caller, place, self._records, self.size))

    @contextmanager
    def _place_of(self, peer: Peer) -> Iterator[tuple[Caller, Place]]:
        caller = Caller(peer, self._installation, self.scratch)
        place: Place
        if peer.store.redis:
            assert self._redis
            place = Memory(caller, self._redis, self.size.fillings)
        else:
            place = Database(caller, self._postgres, self.size.fillings)
        try:
            yield caller, place
        finally:
            place.drop()


@contextmanager
def _alone_in(scratch: Path) -> Iterator[None]:
    """Raises Missing while another run uses the folder: each would count the other's jobs."""
    scratch.mkdir(parents=True, exist_ok=True)
    with (scratch / "run.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = f"another run uses {scratch}; wait for it, or name another --scratch"
            raise Missing(busy) from None
        yield


def _most_telling_first(workload: str) -> int:
    return QUICKLY.index(workload) if workload in QUICKLY else len(QUICKLY)
