"""``flask chaos``: break everything that can break, then prove that nothing was lost or doubled.

Its PostgreSQL is made for the run and removed after it. There is no way to name another one.
"""

from __future__ import annotations

import json
import logging
import platform
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

import click
from flask import Flask

from queueapp import local_postgres
from queueapp.application import this_app
from queueapp.commands.chaos.run import Plan, Run
from queueapp.commands.interruption import INTERRUPTED, Interruption
from queueapp.commands.parameters import Duration
from queueapp.config import needs_database_url
from queueapp.version import VERSION

_HOME = "queueapp-chaos-"
_KEPT = "kept"


def init_app(app: Flask) -> None:
    """Register the command with ``app``."""
    app.cli.command("chaos")(chaos)


@click.option("--jobs", type=click.IntRange(1, 1_000_000), default=1000, show_default=True,
              metavar="N", help="How many jobs to create.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=4, show_default=True,
              metavar="N", help="How many worker processes run them.")  # fmt: skip
@click.option("--for", "seconds", type=Duration(), default="60s", show_default=True,
              help="How long things are broken.")  # fmt: skip
@click.option("--settle", type=Duration(), default="120s", show_default=True,
              help="How long the rest may take to finish afterwards.")  # fmt: skip
@click.option("--lease", type=Duration(), default="3s", show_default=True,
              help="Lease of the workers: a lost job waits that long. 1s at least.")  # fmt: skip
@click.option(
    "--seed", type=int, metavar="N", help="Repeat the jobs and faults of a run. Default: by chance."
)
@click.option("--json", "file", type=click.Path(dir_okay=False, writable=True, path_type=Path),
              help="Write the report into this file as well.")  # fmt: skip
@click.option("--keep", is_flag=True,
              help="Leave the folder with data and logs, and say where. A run that ends broken is "
                   "kept anyhow.")  # fmt: skip
def chaos(file: Path | None, keep: bool, **asked: Any) -> None:
    """Kill, freeze and cut off everything; prove that no job is lost.

    Makes a PostgreSQL of its own, starts web and workers, creates jobs and meanwhile kills workers,
    freezes them past their leases, redeploys them, cuts connections, restarts and kills PostgreSQL.
    Then says whether every invariant holds: exit status 0, or 1. Never touches DATABASE_URL.

    \b
    Examples:
      flask chaos
      flask chaos --jobs 50000 --workers 4 --for 10m
      flask chaos --seed 42 --json report.json --keep
    """
    app = this_app()
    if needs_database_url(app.extensions["queue_settings"]):
        raise click.ClickException("chaos loads this machine, so it does not run in production")
    if asked["seed"] is None:
        asked["seed"] = secrets.randbelow(1_000_000)
    plan = Plan(**asked)
    if plan.seconds < 1 or plan.lease < 1:
        raise click.ClickException("--for and --lease: expected 1s at least")
    logging.getLogger("queueapp").addHandler(logging.NullHandler())
    with Interruption() as interruption:
        run = _run(app, plan, interruption, keep=keep)
    for line in run.report.lines():
        click.echo(line)
    if file is not None:
        file.write_text(json.dumps(run.report.document(), indent=2) + "\n")
    if interruption.count:
        what = "nothing was judged" if run.began else "nothing had begun"
        click.echo(f"\nInterrupted: {what}.")
        raise SystemExit(INTERRUPTED)
    click.echo("\nBROKEN." if run.report.broken else "\nEvery invariant holds.")
    if run.report.broken:
        raise SystemExit(1)


def _run(app: Flask, plan: Plan, interruption: Interruption, *, keep: bool) -> Run:
    _clear_away()
    home = Path(tempfile.mkdtemp(prefix=_HOME))
    click.echo(
        f"Chaos with seed {plan.seed}: {plan.jobs} jobs, {plan.workers} workers, in {home}",
        err=True,
    )
    if keep:
        (home / _KEPT).touch()
    try:
        run = Run(plan, home, Path(app.root_path), interruption)
        run.report.conditions |= {
            "queueapp": VERSION,
            "Python": platform.python_version(),
        }
        try:
            run.go()
            if run.report.broken:
                (home / _KEPT).touch()
        finally:
            run.close(keep=(home / _KEPT).exists())
    finally:
        if not (home / _KEPT).exists():
            shutil.rmtree(home, ignore_errors=True)
    if (home / _KEPT).exists():
        click.echo(f"Data, logs and the outside ledger are kept in {home}", err=True)
    return run


def _clear_away() -> None:
    """Remove what killed runs could not remove themselves, but nothing that is in use or kept."""
    for left in Path(tempfile.gettempdir()).glob(f"{_HOME}*"):
        server = left / "postgres"
        if server.exists() and not (left / _KEPT).exists():
            local_postgres.remove_abandoned(server)
            if not server.exists():
                shutil.rmtree(left, ignore_errors=True)
