"""How the storage settings of the tables bear on a drain: ``python -m bench.autovacuum``.

Each variant is a database of its own that is drained once a round, by a real ``flask work``, with
its history growing. What is kept of it: counts, sizes, WAL and processor time, which a busy machine
does not change; rates are worth their ratio to the first variant of the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from bench import processes, stores
from bench.services import Postgres
from queueapp.connections import WORKER_SESSION
from queueapp.jobs import transitions
from queueapp.jobs.claim import Holder
from queueapp.jobs.transitions import Held

ROOT = Path(__file__).parent.parent
# A launcher comes by once a minute by default, which is longer than a drain takes here.
NAPTIME = "10s"
RENEWED = 500
RENEWALS = 10

EAGER = {
    "autovacuum_vacuum_scale_factor": "0.01",
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_vacuum_cost_delay": "0",
}
# Name: fillfactor of jobs, further settings of jobs, settings of each day of the ledger.
VARIANTS: dict[str, tuple[int, dict[str, str], dict[str, str]]] = {
    "PostgreSQL's own": (100, {}, {}),
    "1 %, fill 70": (70, EAGER, {}),
    "5 %, fill 70": (70, EAGER | {"autovacuum_vacuum_scale_factor": "0.05"}, {}),
    "1 %, with pauses": (70, EAGER | {"autovacuum_vacuum_cost_delay": "2"}, {}),
    "1 %, fill 50": (50, EAGER, {}),
    "1 %, fill 60": (60, EAGER, {}),
    "1 %, fill 100": (100, EAGER, {}),
    "days by deletes only": (70, EAGER, {"autovacuum_vacuum_insert_threshold": "-1"}),
    "days without index cleanup": (70, EAGER, {"vacuum_index_cleanup": "off"}),
    "days by inserts, 5 %": (70, EAGER, {"autovacuum_vacuum_insert_scale_factor": "0.05"}),
}

_SIZES = """
SELECT pg_relation_size('jobs') AS heap, pg_indexes_size('jobs') AS indexes,
  (SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('job_events')) AS events,
  pg_current_wal_lsn() - '0/0'::pg_lsn AS wal
"""
_DEAD = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'jobs'"
_UPDATES = """
SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs'
"""
# From the first start to the last end of what came after job number %s.
_TOOK = """
SELECT extract(epoch FROM max(finished_at) - min(started_at))::float8, count(*)
FROM jobs WHERE id > %s AND status = 'succeeded'
"""
_RUN = re.compile(
    r'automatic (?P<what>vacuum|analyze) of table "(?P<db>\w+)\.public\.(?P<table>\w+)"'
    r".*?CPU: user: (?P<user>[\d.]+) s, system: (?P<system>[\d.]+) s",
    re.S,
)


def main(words: list[str]) -> None:
    """Measure every variant, round by round, and print the medians."""
    options = _options(words)
    names = options.only.split(";") if options.only else list(VARIANTS)
    options.scratch.mkdir(parents=True, exist_ok=True)
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    binaries = Path(options.binaries) if options.binaries else None
    with Postgres(options.scratch, binaries) as postgres:
        postgres.say(f"ALTER SYSTEM SET autovacuum_naptime = '{NAPTIME}'")
        postgres.say("ALTER SYSTEM SET log_autovacuum_min_duration = 0")
        postgres.say("ALTER SYSTEM SET max_wal_size = '4GB'")
        postgres.say("SELECT pg_reload_conf()")
        print(f"PostgreSQL {postgres.version}, {options.jobs} jobs, {options.history} ended before")
        template(postgres, options.scratch, options.history)
        trials = {name: Trial(postgres, options.scratch, n, name) for n, name in enumerate(names)}
        for number in range(options.rounds):
            # Forwards, then backwards: what the machine does meanwhile is shared out.
            for name in names if number % 2 == 0 else reversed(names):
                figures[name].append(trials[name].drain(options.jobs))
                print(number, name, json.dumps(figures[name][-1]), flush=True)
    report(figures)


def template(postgres: Postgres, scratch: Path, history: int) -> None:
    """A migrated database with ``history`` jobs that have ended."""
    postgres.make("history")
    flask(postgres.url("history"), scratch, "db", "upgrade")
    with postgres.connect("history") as connection:
        connection.execute(stores.fill(str(stores.OURS.history), history).encode())
        connection.execute("VACUUM ANALYZE")


def environment(url: str, scratch: Path) -> dict[str, str]:
    """What the commands of the product are told."""
    records = scratch / "records"
    records.mkdir(exist_ok=True)
    return os.environ | {
        "DATABASE_URL": url,
        "QUEUE_HANDLERS": "bench.adaptors.ours_handlers",
        "BENCH_RECORDS": str(records),
        "JOB_WORKER_LOG_LEVEL": "ERROR",
    }


def flask(url: str, scratch: Path, *words: str, watch: Callable[[], None] = lambda: None) -> None:
    """Run a command of the product to its end; ``watch`` is called twice a second meanwhile."""
    command = [sys.executable, "-m", "flask", "--app", "wsgi", *words]
    log = scratch / "flask.log"
    ran = processes.start(command, environment(url, scratch), cwd=ROOT, log=log)
    try:
        while ran.is_running():
            watch()
            time.sleep(0.5)
        if ran.popen.returncode:
            raise SystemExit(f"{words} ended with {ran.popen.returncode}: {ran.said()}")
    finally:
        processes.stop([ran])
    for left in (scratch / "records").glob("*.runs"):
        left.unlink()


class Trial:
    """One variant, with its database."""

    def __init__(self, postgres: Postgres, scratch: Path, number: int, name: str) -> None:
        self._postgres, self._scratch = postgres, scratch
        self._name = f"trial_{number}"
        postgres.make(self._name, "history")
        fill, jobs, days = VARIANTS[name]
        known = [*EAGER, "fillfactor"]
        with self._open() as connection:
            connection.execute(f"ALTER TABLE jobs RESET ({', '.join(known)})".encode())
            set_ = {"fillfactor": str(fill)} | jobs
            connection.execute(_alter("jobs", set_).encode())
            tree = "SELECT relid::regclass::text FROM pg_partition_tree('job_events') WHERE isleaf"
            for (day,) in connection.execute(tree).fetchall():
                if days:
                    connection.execute(_alter(day, days).encode())
            # The history is written anew, as full as the variant has it.
            connection.execute("VACUUM FULL jobs")
            connection.execute("VACUUM ANALYZE")

    def drain(self, jobs: int) -> dict[str, float]:
        """Enqueue, drain, then renew some leases; what it all came to."""
        with self._open() as connection:
            last = _one(connection, "SELECT coalesce(max(id), 0) FROM jobs")
            connection.execute(stores.fill(str(stores.OURS.waiting), jobs).encode())
            connection.execute("CHECKPOINT")
            data = Path(_one(connection, "SHOW data_directory"))
            log = data.parent / "server.log"
            before, said = self._look(connection), log.stat().st_size
            server = processes.cpu_seconds(self._postgres.pid)
            dead: list[float] = []
            flask(
                self._postgres.url(self._name),
                self._scratch,
                "work",
                "--drain",
                watch=lambda: dead.append(_one(connection, _DEAD)),
            )
            server = processes.cpu_seconds(self._postgres.pid) - server
            after = self._look(connection)
            took, done = connection.execute(_TOOK, (last,)).fetchone() or (0, 0)
            if done != jobs:
                raise SystemExit(f"{done} of {jobs} jobs were done")
            hot = self._renewals(connection)
        runs = list(self._runs(log.read_text()[said:]))
        return {
            "rate": jobs / took,
            "server_s": server / jobs * 1e3,
            "wal": (after["wal"] - before["wal"]) / jobs,
            "most_dead": max(dead),
            "heap": (after["heap"] - before["heap"]) / jobs,
            "indexes": (after["indexes"] - before["indexes"]) / jobs,
            "events": (after["events"] - before["events"]) / jobs,
            "hot": hot,
            "vacuums": sum(1 for table, what, _ in runs if table == "jobs" and what == "vacuum"),
            "jobs_s": sum(cpu for table, _, cpu in runs if table == "jobs"),
            "day_vacuums": sum(1 for t, what, _ in runs if t != "jobs" and what == "vacuum"),
            "days_s": sum(cpu for table, _, cpu in runs if table != "jobs"),
        }

    def _renewals(self, connection: Any) -> float:
        """Claim jobs and renew their leases; the share that was renewed in place, in per cent."""
        connection.execute(stores.fill(str(stores.OURS.waiting), RENEWED).encode())
        address = self._postgres.url(self._name).replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(
            address, isolation_level="AUTOCOMMIT", connect_args={"options": WORKER_SESSION}
        )
        holder = Holder("bench:1:000000", lease_s=60)
        with engine.connect() as worker:
            claims = transitions.exchange(worker, [], holder, slots=RENEWED).claims
            held = [Held(claim.id, claim.token) for claim in claims]
            worker.exec_driver_sql("SELECT pg_stat_force_next_flush()")
            before = worker.exec_driver_sql(_UPDATES).one()
            for _ in range(RENEWALS):
                transitions.renew(worker, held, holder)
            worker.exec_driver_sql("SELECT pg_stat_force_next_flush()")
            worker.exec_driver_sql("SELECT pg_stat_clear_snapshot()")
            after = worker.exec_driver_sql(_UPDATES).one()
            transitions.settle(
                worker,
                [transitions.Outcome(c.id, c.token, "succeed", c.claimed_at) for c in claims],
                actor=holder.name,
            )
        engine.dispose()
        return float(100 * (after[1] - before[1]) / (after[0] - before[0]))

    def _look(self, connection: Any) -> dict[str, float]:
        row = connection.execute(_SIZES).fetchone()
        return dict(zip(("heap", "indexes", "events", "wal"), map(float, row), strict=True))

    def _runs(self, said: str) -> Iterator[tuple[str, str, float]]:
        """Table, what was done and its CPU seconds, of each run of autovacuum on this database."""
        for found in _RUN.finditer(said):
            if found["db"] == self._name:
                cpu = float(found["user"]) + float(found["system"])
                yield found["table"], found["what"], cpu

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with self._postgres.connect(self._name) as connection:
            yield connection


def report(figures: dict[str, list[dict[str, float]]]) -> None:
    """The medians as a table in Markdown."""
    columns = list(next(iter(figures.values()))[0])
    print("| settings | " + " | ".join(["ratio", *columns]) + " |")
    print("| --- |" + " --- |" * (len(columns) + 1))
    first = next(iter(figures.values()))
    for name, rounds in figures.items():
        ratios = [one["rate"] / base["rate"] for one, base in zip(rounds, first, strict=True)]
        cells = [statistics.median(ratios)]
        cells += [statistics.median(one[column] for one in rounds) for column in columns]
        print(f"| {name} | " + " | ".join(f"{cell:.4g}" for cell in cells) + " |")


def _alter(table: str, settings: dict[str, str]) -> str:
    words = ", ".join(f"{name} = {value}" for name, value in settings.items())
    return f"ALTER TABLE {table} SET ({words})"


def _one(connection: Any, query: str) -> Any:
    return connection.execute(query).fetchone()[0]


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.autovacuum", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--history", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of variants, with ; between them")
    parser.add_argument("--binaries", help="PostgreSQL's programs")
    scratch = Path(__file__).parent / ".scratch" / "autovacuum"
    parser.add_argument("--scratch", type=Path, default=scratch)
    return parser.parse_args(words)


if __name__ == "__main__":
    started = time.monotonic()
    main(sys.argv[1:])
    print(f"{time.monotonic() - started:.0f} s")
