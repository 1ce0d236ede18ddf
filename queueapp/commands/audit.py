"""``flask audit``: does the ledger lead to the rows?"""

from __future__ import annotations

import sys

import click
from flask import Flask
from flask.cli import with_appcontext
from sqlalchemy import text

from queueapp.commands.layout import counted
from queueapp.extensions import db
from queueapp.jobs import audit as ledger
from queueapp.jobs.audit import Report
from queueapp.jobs.restored import forget_transactions, newest_line
from queueapp.jobs.restored import parts as restored_parts


def init_app(app: Flask) -> None:
    """Register the command with ``app``."""
    app.cli.add_command(audit)


@click.command("audit")
@click.option(
    "--most", type=click.IntRange(1, 10_000), default=20, show_default=True, metavar="N",
    help="How many offenders to name.",
)  # fmt: skip
@click.option(
    "--restored",
    is_flag=True,
    help="First: let lines that pg_dump brought from another server count as the oldest.",
)
@with_appcontext
def audit(most: int, restored: bool) -> None:
    """Check every job's history against its row.

    Folds the events of each job and compares what they lead to with what the row says; looks for
    illegal moves and for lease tokens claimed twice. It reads one snapshot, beside running workers,
    and changes nothing. Exits 1 when something does not fit.

    A database that was restored with pg_dump and psql or pg_restore needs --restored once, before
    anybody reads GET /api/events there: the numbers of the other server's transactions would keep
    lines back. Copies of a whole server (pg_basebackup, snapshots) do not need it.

    \b
    Examples:
      flask audit
      flask audit --most 200
      flask audit --restored
    """
    if restored:
        _settle_in()
    report = _check(most)
    click.echo(
        f"{counted(report.jobs, 'job')}, {counted(report.events, 'event')},"
        f" {counted(report.truncated, 'history', 'histories')} older than the ledger"
    )
    for offender in report.offenders:
        click.echo(f"job {offender.job_id}: {offender.problem}")
    if not report.clean:
        click.echo(
            f"{counted(report.found, 'problem')} found, the first {len(report.offenders)} named."
        )
        raise SystemExit(1)
    click.echo("The ledger leads to the rows: nothing found.")


def _settle_in() -> None:
    """Make the lines that are there the oldest of this server."""
    if db.engine.dialect.name != "postgresql":
        raise click.UsageError("--restored is about PostgreSQL; on SQLite there is nothing to do")
    with db.engine.connect() as connection:
        upto, parts, changed = newest_line(connection), restored_parts(connection), 0
        connection.rollback()
        with click.progressbar(parts, label="Settling in", file=sys.stderr) as bar:
            for part in bar:
                changed += forget_transactions(connection, part, upto=upto)
                connection.commit()
    click.echo(f"{counted(changed, 'line')} now count as older than this server.")


def _check(most: int) -> Report:
    report = Report()
    with db.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(text("SET TRANSACTION READ ONLY"))
        end = ledger.last_id(connection)
        with click.progressbar(length=end, label="Checking jobs", file=sys.stderr) as bar:
            done = 0
            for upto, so_far in ledger.check(connection, keep=most):
                bar.update(upto - done)
                report, done = so_far, upto
        connection.rollback()
    return report
