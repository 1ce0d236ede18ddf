"""``flask bench``: how fast the queue is on your own database, measured aside from your tables.

It makes a throw-away schema, or database, migrates it, runs the product's own processes in it, and
removes it, whatever happens.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click
from flask import Flask
from sqlalchemy.engine import make_url

from queueapp.application import this_app
from queueapp.commands.bench.clock import Clock, Interrupted
from queueapp.commands.bench.place import Place, refuse_what_cannot_be, sweep, throw_away
from queueapp.commands.bench.progress import line
from queueapp.commands.bench.report import Report
from queueapp.commands.bench.run import Plan, Run, must_have_room
from queueapp.commands.interruption import INTERRUPTED, Interruption
from queueapp.commands.parameters import Duration
from queueapp.config import Settings, needs_database_url
from queueapp.connections import Address, address_of
from queueapp.errors import SettingError

_FOLDER = "queueapp-bench-"
_SHORTEST_S = 10.0
_LONGEST_S = 3600.0


def init_app(app: Flask) -> None:
    """Register the command with ``app``."""
    app.cli.command("bench")(bench)


@click.option("--jobs", type=click.IntRange(10, 1_000_000), default=20_000, show_default=True,
              metavar="N", help="How many jobs to create and run.")  # fmt: skip
@click.option("--processes", type=click.IntRange(1, 64), metavar="N",
              help="Worker processes. [QUEUE_PROCESSES]")  # fmt: skip
@click.option("--concurrency", type=click.IntRange(1, 500), metavar="N",
              help="Handler threads of a process. [QUEUE_CONCURRENCY]")  # fmt: skip
@click.option("--for", "seconds", type=Duration(), default="60s", show_default=True,
              help="How long it may take altogether; 10s to 1h.")  # fmt: skip
@click.option("--database", is_flag=True,
              help="In a throw-away database beside yours, not in a schema within it.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON document.")
@click.option("--yes", is_flag=True, help="Do it in production (QUEUE_ENV=production) too.")
def bench(
    database: bool, as_json: bool, yes: bool, processes: int | None, concurrency: int | None,
    jobs: int, seconds: float,
) -> None:  # fmt: skip
    """Measure how fast the queue is on your database.

    In a throw-away schema of the database in DATABASE_URL it creates jobs that do nothing – by one
    producer, by eight, in bulk – and runs them with real workers: jobs a second, how soon an idle
    worker begins, what a job costs in WAL and dead tuples, and what bounds it. Your own tables are
    never touched; the server has the work, so expect others to notice. The schema is removed
    whatever happens, and what a killed run left is removed by the next one.

    \b
    Examples:
      flask bench
      flask bench --processes 2 --concurrency 20
      flask bench --jobs 200000 --for 5m --json > report.json
      flask bench --database          # where you may create databases, not schemas

    \b
    Exit statuses: 0 each job ran once and succeeded, also when --for ended it; 1 one did not, or a
    process died; 2 wrong usage; 69 no database, later perhaps; 78 it cannot be done here: SQLite, a
    pooler, a right or connections that are missing; 130 stopped with Ctrl-C, nothing reported.
    """
    app = this_app()
    settings: Settings = app.extensions["queue_settings"]
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise click.UsageError("--for: expected 10s to 1h")
    refuse_what_cannot_be(address_of(app))
    if needs_database_url(settings) and not yes:
        raise click.UsageError("this is production: the bench loads its server; --yes to do it")
    threads = settings.concurrency if concurrency is None else concurrency
    if threads == 0:
        raise SettingError(
            "QUEUE_CONCURRENCY is 0: give --concurrency", setting="QUEUE_CONCURRENCY"
        )
    plan = Plan(jobs, processes or settings.processes, threads, seconds)
    logging.getLogger("queueapp").addHandler(logging.NullHandler())
    report = _measured(app, plan, database=database)
    for text in [json.dumps(report.document(), indent=2)] if as_json else report.lines():
        click.echo(text)
    if not report.holds:
        raise SystemExit(1)


def _measured(app: Flask, plan: Plan, *, database: bool) -> Report:
    address = address_of(app)
    with Interruption() as interruption:
        clock = Clock(plan.seconds, interruption)
        _clear_folders()
        for told in sweep(address):
            line(told)
        announce = partial(_announce, plan)
        try:
            home = Path(app.root_path)
            with throw_away(
                address, Path(app.instance_path), database=database, announce=announce
            ) as place:
                return _run(place, plan, clock, home)
        except Interrupted:
            line("\nInterrupted: nothing is reported.")
            raise SystemExit(INTERRUPTED) from None


def _run(place: Place, plan: Plan, clock: Clock, home: Path) -> Report:
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        run = Run(plan, place, home=home, folder=folder, clock=clock, stack=stack)
        run.go()
    return run.report


def _announce(plan: Plan, place: Place) -> None:
    """Say what is going to happen, before it does; nothing happens where there is no room."""
    must_have_room(place, plan)
    within = "on the server of" if place.what == "database" else "in"
    line(
        f"flask bench makes the {place.what} {place.name} {within} the database {place.inside}"
        f"{_where(place.address)} as {place.role}, runs about {plan.jobs:,} jobs in it with"
        f" {plan.processes} × {plan.concurrency} worker threads and up to {plan.connections}"
        f" connections within {plan.seconds:g} s, and removes it."
    )


def _where(address: Address) -> str:
    url = make_url(address.settings.database_url)
    host = url.host or url.query.get("host", "")
    return f" at {host}" if host else ""


def _clear_folders() -> None:
    """Remove the folders of runs that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        pid = left.name.removeprefix(_FOLDER).split("-")[0]
        if pid.isdigit() and not _is_running(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
