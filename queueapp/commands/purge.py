"""``flask purge``: remove now what retention no longer keeps."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

import click
from flask import Flask, current_app
from flask.cli import with_appcontext
from sqlalchemy.exc import OperationalError

from queueapp.commands.interruption import INTERRUPTED
from queueapp.commands.keeping import keep_of
from queueapp.commands.layout import counted
from queueapp.commands.parameters import Duration, actor
from queueapp.extensions import db
from queueapp.jobs import partitions, transitions
from queueapp.jobs.status import Status
from queueapp.jobs.transitions import Age, Keep

# What somebody has locked is asked for again this often, then left for the next time.
TRIES = 25
PAUSE_S = 0.2
MOST_COUNTED = 10_000_000


def init_app(app: Flask) -> None:
    """Register the command with ``app``."""
    app.cli.add_command(purge)


class LedgerAge(Duration):
    """A duration of a day at least."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        seconds = super().convert(value, param, ctx)
        if seconds < timedelta(days=1).total_seconds():
            self.fail(f"{value!r}: the ledger is kept by whole days, at least 1d", param, ctx)
        return seconds


@dataclass
class Removed:
    """What a purge has come to."""

    rows: dict[Status, int] = field(default_factory=dict)
    days: list[date] = field(default_factory=list)
    events: int = 0
    carried: int = 0
    left: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rows = ", ".join(f"{count} {status}" for status, count in self.rows.items())
        ledger = f"{counted(len(self.days), 'day')} of the ledger"
        if self.days:
            ledger += f" ({self.days[0]} to {self.days[-1]})"
        if self.events:
            ledger += f", {counted(self.events, 'event')} of days without a partition"
        if self.carried:
            ledger += f", {counted(self.carried, 'switch', 'switches')} carried over"
        return f"{rows or 'no'} jobs, {ledger}"


@click.command("purge")
@click.option("--succeeded", type=Duration(), help="Their age in days: 7d. [QUEUE_KEEP_SUCCEEDED]")
@click.option("--failed", type=Duration(), help="The same for failed jobs. [QUEUE_KEEP_FAILED]")
@click.option("--cancelled", type=Duration(), help="For cancelled ones. [QUEUE_KEEP_CANCELLED]")
@click.option("--ledger", type=LedgerAge(), help="For the ledger, 1d at least. [QUEUE_KEEP_LEDGER]")
@click.option("--dry-run", is_flag=True, help="Count what would go, remove nothing.")
@with_appcontext
def purge(dry_run: bool, **ages: float | None) -> None:
    """Remove jobs that ended long ago, and days of the ledger that are older still.

    Workers do so all the time; this is for a shorter age once, or to see what would go. Jobs that
    have not ended are never touched; those with an idempotency key stay QUEUE_IDEMPOTENCY_DAYS. It
    works in small batches beside running workers, can be stopped with Ctrl-C and run again.

    \b
    Examples:
      flask purge --dry-run
      flask purge --succeeded 1d --cancelled 1d
      flask purge --ledger 30d

    \b
    Exit statuses: 0 also when something is left for the next time; 130 stopped with Ctrl-C;
    69 no database, later perhaps; 78 a setting or the schema does not fit.
    """
    keep = keep_of(current_app.extensions["queue_settings"])
    given = {name: timedelta(seconds=age) for name, age in ages.items() if age is not None}
    keep = replace(keep, **given)
    if dry_run:
        _count(keep)
        return
    removed = Removed()
    try:
        _remove(keep, removed)
    except KeyboardInterrupt:
        click.echo(f"Stopped. Removed so far: {removed}")
        raise click.exceptions.Exit(INTERRUPTED) from None
    for left in removed.left:
        click.echo(f"left for the next time: {left}", err=True)
    click.echo(f"Removed: {removed}")


def _count(keep: Keep) -> None:
    for status, age in keep.ages().items():
        old = counted(_old(status, age), f"{status} job")
        click.echo(f"{old} ended more than {_days(age.age)} ago")
    with db.engine.connect() as connection:
        days = partitions.expired(connection, keep.ledger)
    shown = f": {days[0]} to {days[-1]}" if days else ""
    older = f"{'is' if len(days) == 1 else 'are'} older than {_days(keep.ledger)}{shown}"
    click.echo(f"{counted(len(days), 'day')} of the ledger {older}")
    click.echo("Nothing was removed.")


def _days(age: timedelta) -> str:
    return f"{age / timedelta(days=1):g} d"


def _remove(keep: Keep, removed: Removed) -> None:
    for status, age in keep.ages().items():
        removed.rows[status] = 0
        _remove_rows(status, age, removed)
    _clear_default(keep.ledger, removed)
    _drop_days(keep.ledger, removed)


def _remove_rows(status: Status, age: Age, removed: Removed) -> None:
    tries = TRIES
    with _bar(_old(status, age), f"{status} jobs") as advance:
        while tries:
            gone = _batch(status, age)
            if gone:
                removed.rows[status] += gone
                advance(gone)
                tries = TRIES
            elif not _old(status, age, limit=1):
                return
            else:
                # Somebody has locked the oldest: perhaps another purge, perhaps a forgotten psql.
                time.sleep(PAUSE_S)
                tries -= 1
    old = counted(_old(status, age), f"{status} job")
    removed.left.append(f"{old}, of which somebody has locked rows")


def _old(status: Status, age: Age, limit: int = MOST_COUNTED) -> int:
    with db.engine.connect() as connection:
        return transitions.count_old(connection, status, age, limit=limit)


def _batch(status: Status, age: Age) -> int:
    with db.engine.begin() as connection:
        return len(transitions.purge_old(connection, status, age, actor=actor()))


def _clear_default(keep: timedelta, removed: Removed) -> None:
    gone = partitions.BATCH
    while gone == partitions.BATCH:
        with db.engine.begin() as connection:
            gone = partitions.clear_default(connection, keep)
        removed.events += gone


def _drop_days(keep: timedelta, removed: Removed) -> None:
    with db.engine.connect() as connection:
        days = partitions.expired(connection, keep)
    with _bar(len(days), "days of the ledger") as advance:
        for _ in days:
            dropped = _drop_oldest(keep)
            if dropped is None:
                break
            removed.days.append(dropped.day)
            removed.carried += len(dropped.carried)
            advance(1)
    with db.engine.connect() as connection:
        left = partitions.expired(connection, keep)
    if left:
        days_left = counted(len(left), "day")
        removed.left.append(f"{days_left} of the ledger, which somebody reads just now")


def _drop_oldest(keep: timedelta) -> partitions.Dropped | None:
    """Drop a day; None when there is none, or somebody kept it locked all the time."""
    for _ in range(TRIES):
        try:
            with db.engine.begin() as connection:
                return partitions.drop_oldest(connection, keep, actor=actor())
        except OperationalError as error:
            if not partitions.is_locked(error):
                raise
            time.sleep(PAUSE_S)
    return None


@contextmanager
def _bar(length: int, label: str) -> Iterator[Callable[[int], None]]:
    if not length:
        yield lambda _: None
        return
    with click.progressbar(length=length, label=f"Removing {label}", file=sys.stderr) as bar:
        yield bar.update
