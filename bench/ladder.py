"""The ladder of this product alone: 1, 2 and 4 worker processes, beside the same SQL by pgbench."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from bench import exchange, pgbench, processes
from bench.drain import Drain, Load
from bench.errors import Failed
from bench.place import Database
from bench.workloads import Figures, Subject

RUNGS = (1, 2, 4)
# What a waiting job waits, in seconds.
WAIT_S = 0.005
_ALL_BEGUN_S = 60.0
_WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"
# Each turn of a worker writes its events in one transaction.
_JOBS_A_COMMIT = """
    SELECT coalesce(1000 * count(*) / nullif(count(DISTINCT xmin::text), 0), 0)
    FROM job_events WHERE event = 'succeeded'
"""


@dataclass(frozen=True)
class Series:
    """Rungs of one kind: workers with ``options`` and handlers that wait, or SQL by ``batch``."""

    name: str
    title: str
    options: tuple[str, ...] = ()
    wait_s: float = 0.0
    batch: int = 0


SERIES = (
    Series("noop", "no-op jobs, defaults"),
    Series("wait", f"jobs that wait {WAIT_S * 1000:.0f} ms, defaults", wait_s=WAIT_S),
    Series("strict", "no-op jobs, `--prefetch 0`", options=("--prefetch", "0")),
    Series("sql100", "the same SQL by pgbench, 100 a call", batch=100),
    Series("sql10", "the same SQL by pgbench, 10 a call", batch=10),
)


def ladder(subject: Subject) -> dict[str, Figures]:
    """The ladder of docs/scaling.md: 1, 2, 4 processes, and pgbench with the same SQL."""
    return dict(_rungs(subject))


def _rungs(subject: Subject) -> Iterator[tuple[str, Figures]]:
    for count in RUNGS:
        for series in SERIES:
            measure: Callable[[Subject, Series, int], Figures] = _sql if series.batch else _workers
            try:
                figures = measure(subject, series, count)
            except Failed as error:
                # The other rungs are still worth measuring.
                figures = {"status": "failed", "why": str(error)}
            yield f"ladder {series.name} {count}", {**figures, "series": series.name, "of": count}


def _workers(subject: Subject, series: Series, count: int) -> Figures:
    """``flask work --processes N``, from the moment that each of them has begun a job."""
    place = subject.place
    place.fresh("ladder")
    caller = subject.caller.of(
        replace(
            subject.caller.peer,
            options=(*series.options, "--processes", str(count)),
            environment={"BENCH_WAIT_S": str(series.wait_s)},
        )
    )
    load = Load(subject.size.ladder, subject.size.ladder_s)
    figures = _Rung(caller, place, subject.records, load).of_processes(count)
    return {**figures, "jobs_a_commit": place.count(_JOBS_A_COMMIT) / 1000}


def _sql(subject: Subject, series: Series, clients: int) -> Figures:
    """pgbench with as many clients as there would be processes."""
    place = subject.place
    assert isinstance(place, Database)
    place.fresh("ladder")
    place.settle_down()
    script = exchange.script(batch=series.batch, clients=clients)
    wal, used = place.count(_WAL), processes.cpu_seconds(place.server)
    driven = pgbench.drive(
        place.binaries, place.url, script,
        seconds=max(1, round(subject.size.ladder_s)), scratch=subject.records.folder.parent,
    )  # fmt: skip
    used, wal = processes.cpu_seconds(place.server) - used, place.count(_WAL) - wal
    done = place.done(subject.size.ladder)
    if not 0 < done < subject.size.ladder:
        raise Failed(f"{done} of {subject.size.ladder} jobs were done: no figure can be had of it")
    return {
        "rate": done / driven.seconds,
        "jobs": done,
        "secs": driven.seconds,
        "cpu_worker": driven.cpu_s / done * 1000,
        "cpu_server": used / done * 1000,
        "wal": wal / done,
        "jobs_a_commit": place.count(_JOBS_A_COMMIT) / 1000,
    }


class _Rung(Drain):
    """A drain whose clock starts when every process has begun its first job."""

    def of_processes(self, count: int) -> dict[str, Any]:
        self._processes = count
        return self.run()

    def _measure(self) -> dict[str, Any]:
        self._wait_for_all()
        wal, used = self._place.count(_WAL), self._used()
        began, before = time.time(), self._records.progress()[0]
        whole = self._wait_for_the_last(began)
        ended, after = time.time(), self._records.progress()[0]
        now, wal = self._used(), self._place.count(_WAL) - wal
        done = after - before
        if not done or (whole and done < self._load.jobs / 20):
            raise Failed(f"only {done} jobs were left when all processes had begun")
        return {
            **self._figures(done, ended - began, whole=whole, used=used, now=now),
            "wal": wal / done,
        }

    def _wait_for_all(self) -> None:
        self._wait_for_the_first()
        deadline = time.monotonic() + _ALL_BEGUN_S
        while len(self._records.beginnings()) < self._processes:
            if time.monotonic() > deadline or not self._workers[0].is_running():
                raise Failed(f"not all {self._processes} processes began a job: {self._said()}")
            time.sleep(0.005)
