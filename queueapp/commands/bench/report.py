"""How a run is told: figures with units for people, the same under stable names for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from queueapp.commands.bench import limits
from queueapp.commands.bench.latency import PER_SECOND, Latency
from queueapp.commands.bench.limits import Turn
from queueapp.commands.bench.notes import Noted
from queueapp.commands.bench.producers import BATCH, Rate
from queueapp.commands.bench.tables import Dead, Drain

FORMAT = 1
_SHOWN = 5
Row = tuple[str, str, str]


@dataclass
class Report:
    """Everything that was measured; None where it could not be."""

    conditions: dict[str, Any]
    jobs: int = 0
    processes: int = 1
    concurrency: int = 1
    round_trip: float = 0.0
    commit: float = 0.0
    one: Rate | None = None
    many: Rate | None = None
    bulk: Rate | None = None
    latency: Latency = field(default_factory=lambda: Latency(()))
    drain: Drain = field(default_factory=lambda: Drain(0, 0, 0.0, 0))
    ran: Noted = field(default_factory=lambda: Noted([], []))
    logging: float | None = None
    finished: int = 0
    # With those of the idle workers, which the server has counted as well.
    all_finished: int = 0
    wal: int | None = None
    dead: Dead | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all jobs were done before the time was over."""
        return self.finished == self.jobs

    @property
    def holds(self) -> bool:
        """Whether jobs ran, each of them once, and succeeded."""
        return self.finished > 0 and not self.problems

    @property
    def per_second(self) -> float | None:
        """The rate of the drain."""
        return self.drain.finished / self.drain.seconds if self.drain.seconds > 0 else None

    @property
    def dead_per_job(self) -> float | None:
        """How many dead row versions a finished job has left in both tables."""
        dead = self.dead
        return _per(dead.updated + dead.deleted, self.all_finished) if dead else None

    @property
    def turn(self) -> Turn | None:
        """A worker's turn of the drain; None for too few."""
        drain, cpu = self.drain, self.ran.cpu_per_run
        if not drain.turns or drain.seconds <= 0:
            return None
        whole = drain.seconds * drain.workers / drain.turns
        spent = None if cpu is None else cpu * drain.finished / drain.turns
        return Turn(whole, self.round_trip, self.commit, spent, self.logging)

    @property
    def bound(self) -> str:
        """What bounds the drain, in words."""
        here = bool(self.conditions.get("server_here"))
        return limits.sentence(self.turn, server_here=here, cpus=self.conditions["cpus_here"])

    def document(self) -> dict[str, Any]:
        """The report as programs read it: ``docs/measuring.md`` explains each name."""
        dead, drain, turn = self.dead, self.drain, self.turn
        return {
            "format": FORMAT,
            "holds": self.holds,
            "complete": self.complete,
            "problems": self.problems,
            "conditions": self.conditions,
            "database": {
                "round_trip_ms": _ms(self.round_trip),
                "commit_ms": _ms(self.commit),
            },
            "enqueue": {
                "one_producer": _rate(self.one),
                "eight_producers": _rate(self.many),
                "bulk": _rate(self.bulk),
                "bulk_batch": BATCH,
            },
            "latency": {
                "jobs": len(self.latency.waits),
                "sent_per_second": PER_SECOND,
                "p50_ms": _ms(self.latency.at(0.5)),
                "p95_ms": _ms(self.latency.at(0.95)),
                "p99_ms": _ms(self.latency.at(0.99)),
            },
            "drain": {
                "jobs": self.jobs,
                "finished": self.finished,
                "processes": self.processes,
                "processes_that_took_part": drain.workers,
                "concurrency": self.concurrency,
                "per_second": _round(self.per_second, 1),
                "jobs_per_turn": _round(_per(drain.finished, drain.turns), 2),
                "turn_ms": _ms(turn.whole if turn else None),
                "worker_cpu_ms_per_job": _ms(self.ran.cpu_per_run),
            },
            "cost": {
                "wal_bytes_per_job": _round(_per(self.wal, self.finished), 0),
                "dead_tuples_per_job": _round(self.dead_per_job, 2),
                "updates_in_place": _round(_per(dead.in_place, dead.updated) if dead else None, 3),
                "dead_tuples_left": dead.left if dead else None,
            },
            "bound": {
                "by": turn.largest if turn else None,
                "ms_of_a_turn": {name: _ms(s) for name, s in turn.parts().items()} if turn else {},
                "says": self.bound,
            },
        }

    def lines(self) -> Iterator[str]:
        """The report as people read it."""
        blocks = (
            ("Enqueue", self._enqueue()),
            ("Idle to start of the handler", self._latency()),
            ("Drain", self._drain()),
            ("Cost of a finished job", self._cost()),
            ("Database", self._database()),
        )
        for title, rows in blocks:
            yield from ("", title)
            yield from (f"  {name:<30}{value:>14}  {about}".rstrip() for name, value, about in rows)
        yield from ("", f"What bounds the drain: {self.bound}", "", "Conditions")
        width = max(map(len, self.conditions)) + 2
        yield from (
            f"  {name.removesuffix('_s').replace('_', ' '):<{width}}{_said(name, value)}"
            for name, value in self.conditions.items()
        )
        yield ""
        if not self.complete:
            left = self.jobs - self.finished
            yield f"The time was over with {left:,} of {self.jobs:,} jobs left: give --for more."
        yield from self._verdict()

    def _verdict(self) -> Iterable[str]:
        if self.holds:
            return [f"Each of {self.finished:,} jobs ran once and succeeded."]
        if not self.problems:
            return ["BROKEN: no job was finished."]
        more = len(self.problems) - _SHOWN
        rest = [f"  and {more:,} more"] if more > 0 else []
        return ["BROKEN:", *(f"  {problem}" for problem in self.problems[:_SHOWN]), *rest]

    def _enqueue(self) -> Iterator[Row]:
        for name, rate in (
            ("one producer, a commit each", self.one),
            ("8 producers at once", self.many),
            (f"in bulk, {BATCH:,} a commit", self.bulk),
        ):
            each = rate.producers / rate.per_second if rate and rate.jobs else None
            about = "" if rate is self.bulk else f"{_shown(each)} each"
            yield name, _unit(rate.per_second if rate else None, "jobs/s"), about

    def _latency(self) -> Iterator[Row]:
        for part in (50, 95, 99):
            yield f"p{part}", _shown(self.latency.at(part / 100)), ""
        yield "jobs sent", f"{len(self.latency.waits):,}", f"{PER_SECOND} a second, to idle workers"

    def _drain(self) -> Iterator[Row]:
        drain = self.drain
        took = f"{drain.workers} of {self.processes} processes × {self.concurrency} threads"
        yield "rate", _unit(self.per_second, "jobs/s"), took
        yield "jobs", f"{self.finished:,}", f"of {self.jobs:,}"
        yield (
            "jobs a turn",
            _decimal(_per(drain.finished, drain.turns)),
            "one commit settles, claims",
        )
        yield "CPU of the worker a job", _shown(self.ran.cpu_per_run), ""

    def _cost(self) -> Iterator[Row]:
        yield "WAL", _unit(_per(self.wal, self.finished), "bytes"), "other traffic included"
        dead = self.dead
        in_place = _per(dead.in_place, dead.updated) if dead else None
        hot = "unknown" if in_place is None else f"{in_place:.0%}"
        yield "dead tuples", _decimal(self.dead_per_job), f"{hot} of the updates in place (HOT)"
        yield "dead tuples left at the end", f"{dead.left:,}" if dead else "unknown", "of all jobs"

    def _database(self) -> Iterator[Row]:
        yield "round trip", _shown(self.round_trip), "median of SELECT 1"
        yield "commit", _shown(self.commit), "median of a small insert, its round trip included"


def _per(amount: float | None, of: float) -> float | None:
    return None if amount is None or not of else amount / of


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _ms(seconds: float | None) -> float | None:
    return _round(None if seconds is None else seconds * 1000, 3)


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    return {
        "jobs": rate.jobs,
        "seconds": round(rate.seconds, 3),
        "per_second": round(rate.per_second, 1),
    }


def _shown(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:,.2f} ms"


def _unit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:,.0f} {unit}"


def _decimal(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"


def _said(name: str, value: Any) -> str:
    if name.endswith("_s"):
        return f"{value:g} s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)
