"""One run from the beginning to its report: break things for a while, let it settle, judge."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psycopg
import sqlalchemy as sa

from queueapp.commands.chaos import evidence as seen
from queueapp.commands.chaos import faults, invariants
from queueapp.commands.chaos.evidence import Evidence
from queueapp.commands.chaos.jobs import Producers, jobs
from queueapp.commands.chaos.progress import Progress
from queueapp.commands.chaos.report import Report
from queueapp.commands.chaos.stage import KINDS, Stage
from queueapp.commands.interruption import Interruption
from queueapp.handlers import load

_TICK_S = 0.05
_RETIRE_S = 30.0
# Opened when first needed: by each worker for a transaction beside its loops, by the web process
# for a second request at once and to wake the workers.
_SPARE_OF_WORKER = 1
_SPARE_OF_WEB = 2


@dataclass(frozen=True)
class Plan:
    """What was asked for; times in seconds."""

    jobs: int
    workers: int
    seconds: float
    settle: float
    lease: float
    seed: int


class Run:
    """Make it, ``go``, read ``report``, ``close``. ``began``: jobs were created, things broken."""

    began = False

    def __init__(self, plan: Plan, home: Path, root: Path, interruption: Interruption) -> None:
        load((KINDS,))
        self._plan = plan
        self._interruption = interruption
        self._stage = Stage(home, root, plan.workers, plan.lease)
        self._engine = sa.create_engine(
            self._stage.database_url,
            pool_pre_ping=True,
            connect_args={"application_name": "queueapp-chaos", "connect_timeout": 5},
        )
        self._progress = Progress(self._stage.plain_url, plan.jobs)
        self._evidence = Evidence(asked=plan.jobs, deaths=self._stage.deaths, fell=self._stage.fell)
        self.report = Report(
            {
                "seed": plan.seed,
                "jobs": plan.jobs,
                "workers": plan.workers,
                "broken for": f"{plan.seconds:g} s",
                "lease": f"{plan.lease:g} s",
                "PostgreSQL": self._stage.version,
                "processors": os.cpu_count(),
            },
            self._stage.done,
        )

    def go(self) -> None:
        """Do all of it, up to a signal."""
        self._stage.open(lambda: self._interruption.count > 0)
        requests = list(jobs(self._plan.seed, self._plan.jobs, self._plan.lease))
        producers = Producers(self._engine, self._stage.url, requests, self._plan.seconds)
        self._wait("warms up", 1.0)
        if not self._interruption.count:
            before = seen.connections(self._stage.database_url)
            self.began = True
            producers.start()
            self._break_things()
            self._settle(producers)
            self._evidence.connections = before, seen.connections(self._stage.database_url)
            spare = self._plan.workers * _SPARE_OF_WORKER + _SPARE_OF_WEB
            self._evidence.connections_allowed = before + spare
            producers.stop()
        self._judge(producers)

    def _break_things(self) -> None:
        plan = self._plan
        began = time.monotonic()
        coming = faults.schedule(plan.seed, plan.seconds, plan.workers, plan.lease)
        while (spent := time.monotonic() - began) < plan.seconds and not self._interruption.count:
            if coming and coming[0].at <= spent and self._stage.stands():
                self._strike(coming.pop(0))
            self._look("breaking things")

    def _strike(self, fault: faults.Fault) -> None:
        try:
            self._stage.strike(fault)
        except psycopg.Error:
            return  # nobody to cut off: the server is on its way back
        self._progress.faults += 1

    def _settle(self, producers: Producers) -> None:
        """Wait until all has ended, within the limit."""
        deadline = time.monotonic() + self._plan.settle
        while time.monotonic() < deadline and not self._interruption.count:
            self._look("settling")
            progress = self._progress
            if producers.done and progress.created == progress.finished >= self._plan.jobs:
                return

    def _look(self, phase: str) -> None:
        self._stage.thaw(time.monotonic())
        self._stage.look_after()
        self._progress.look(phase)
        time.sleep(_TICK_S)

    def _wait(self, phase: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._interruption.count:
            self._look(phase)

    def _judge(self, producers: Producers) -> None:
        self._progress.look("settled", now=True)
        self._progress.close()
        if self._interruption.count:
            self.report.figures |= {
                "created": self._progress.created,
                "finished": self._progress.finished,
            }
            return
        evidence = self._evidence
        evidence.fell += self._stage.retire(_RETIRE_S)
        evidence.tracebacks = self._stage.tracebacks()
        evidence.promised = producers.promises.ids
        evidence.refused = producers.promises.refused
        seen.gather(self._stage.database_url, self._stage.ledger, evidence)
        self.report.findings = invariants.check(evidence)
        self.report.figures["requests repeated"] = _told(producers.promises.repeated)
        self._figures(evidence)

    def _figures(self, evidence: Evidence) -> None:
        lost = invariants.recoveries(evidence.events)
        starts = sum(line.what == "start" for line in evidence.lines)
        away = self._stage.away
        self.report.figures |= {
            "PostgreSQL was away": f"{sum(away):.1f} s in {len(away)} restarts",
            "starts": f"{starts} for {len(evidence.jobs)} jobs",
            "late beginnings": invariants.late_beginnings(evidence),
            "refused late writes": invariants.refused_writes(evidence.events),
            "recoveries": len(lost),
            "taken back": _within([one.taken_back for one in lost]),
            "run again": _within([one.run_again for one in lost if one.run_again is not None]),
        }

    def close(self, *, keep: bool) -> None:
        """End every process and remove the data unless ``keep``."""
        self._engine.dispose()
        self._stage.close(keep=keep)


def _within(waits: list[float]) -> str:
    if not waits:
        return "–"
    waits = sorted(waits)
    half = waits[len(waits) // 2]
    return f"{half:.1f} s after the end of the lease, {waits[-1]:.1f} s at the slowest"


def _told(counted: Counter[str]) -> str:
    told = ", ".join(f"{count} {name}" for name, count in counted.most_common())
    return f"{counted.total()} ({told})" if counted else "0"
