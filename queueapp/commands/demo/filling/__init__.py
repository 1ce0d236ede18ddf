"""``flask demo fill``: a history of millions of jobs, to see the console and its reads at size."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import click
import sqlalchemy as sa
from flask import Flask
from flask.cli import with_appcontext
from sqlalchemy.orm import Session

from queueapp.application import this_app
from queueapp.commands.demo import processes
from queueapp.commands.demo.filling.content import (
    BEFORE,
    CONTENT,
    HELD_KIND,
    LIVE,
    PEOPLE,
    sign_of,
)
from queueapp.commands.interruption import INTERRUPTED
from queueapp.commands.layout import counted
from queueapp.extensions import db
from queueapp.jobs import made, operations, partitions
from queueapp.jobs.control import scope_of
from queueapp.jobs.made import BATCH, DAYS, Extent
from queueapp.jobs.made.statements import MARK
from queueapp.jobs.queries import JobFilter, database_now
from queueapp.jobs.status import Event, Status

_DAY = timedelta(days=1)
_SIGN = timedelta(minutes=1)
_LINES = 200

Line = Mapping[str, Any]


@click.command()
@click.option(
    "--jobs", type=click.IntRange(100, 50_000_000), default=3_000_000, show_default=True,
    metavar="N", help="How many jobs.",
)  # fmt: skip
@click.option(
    "--events", type=click.IntRange(100, 200_000_000), default=6_000_000, show_default=True,
    metavar="N",
    help="About how many lines of the ledger. A job has three, a few have more: the oldest jobs"
    " are older than the ledger then, and have none.",
)  # fmt: skip
@click.option("--clear", "cleared", is_flag=True, help="Remove all that was made, and end.")
@click.option("--yes", is_flag=True, help="Write it beside a live worker too.")
@processes.into_database_url
@with_appcontext
def fill(jobs: int, events: int, cleared: bool, yes: bool, into_database_url: bool) -> None:
    """Fill the queue with a made history of seven days.

    Most jobs have succeeded, by day more than by night; one in three hundred has failed, with
    thirty causes. Of three million twenty thousand are due and a few thousand are scheduled, tried
    again, or held with their kind. Some texts are very long, and some would like to be markup.
    Three workers have worked until now and run two dozen jobs: they are names only, so
    the verdict misses them. A real worker runs what it knows of it (demo.echo) and puts the rest
    back, a little later each time.

    It goes into the database of the demo, whether the demo runs or not, and its verdict is no
    longer green then: thousands of jobs are due that nobody works off. Beside a live worker it is
    refused without --yes.

    It is written in batches of 50,000 jobs; Ctrl-C leaves whole ones. Three million jobs take
    some minutes and 3 GB of disk. A second run adds as many again.

    \b
    Examples:
      flask demo fill
      flask demo fill --jobs 300000 --events 900000
      flask demo fill --clear
    """
    app = this_app()
    if app.extensions["queue_settings"].is_sqlite:
        raise click.ClickException(
            "a long history needs PostgreSQL: unset DATABASE_URL for one here"
        )
    processes.refuse_unless_for_play(app, into_database_url=into_database_url)
    processes.migrate(app)
    if not cleared and not yes:
        _refuse_beside_a_worker(app)
    began = time.monotonic()
    with Session(db.engine) as session:
        try:
            said = _clear(session) if cleared else _fill(session, jobs, events)
        except KeyboardInterrupt:
            session.rollback()
            click.echo("\nStopped. What was written stands; --clear removes it.", err=True)
            raise SystemExit(INTERRUPTED) from None
    _tidy()
    click.echo(f"{said} in {time.monotonic() - began:.0f} s.")


def _refuse_beside_a_worker(app: Flask) -> None:
    """Somebody watches this queue: its verdict would change, and its worker run made jobs."""
    if worker := processes.real_worker(app, made={"drill", MARK}):
        raise click.ClickException(
            f"{worker} works on this database: it would run made jobs, and the verdict of its"
            " console would not be green any more. Stop it first, or give --yes; --clear removes"
            " what was made"
        )


def _fill(session: Session, jobs: int, events: int) -> str:
    now = database_now(session)
    _make_days(session, now)
    extent, lines = Extent(now, jobs, events), 0
    with _bar("Writing jobs", jobs) as bar:
        for first in range(1, jobs + 1, BATCH):
            last = min(first + BATCH - 1, jobs)
            lines += made.fill(session, CONTENT, extent, first, last)
            session.commit()
            bar.update(last - first + 1)
    click.echo("Writing what workers and people did", err=True)
    for part in _in_parts([*_of_kinds(now), *_of_workers(now)]):
        made.say(session, part)
        session.commit()
    for part in _in_parts(list(made.minutes(session, now - _DAY, now))):
        made.say(session, part)
        session.commit()
    _operate(session)
    return f"Wrote {counted(jobs, 'job')} and {counted(lines, 'line')} about them"


def _clear(session: Session) -> str:
    first, last = made.bounds(session)
    gone = 0
    with _bar("Removing jobs", last - first + 1) as bar:
        for start in range(first, last + 1, BATCH):
            gone += made.clear(session, start)
            session.commit()
            bar.update(BATCH)
    made.clear_lines(session, PEOPLE)
    session.commit()
    return f"Removed {counted(gone, 'job')}"


def _tidy() -> None:
    """What autovacuum would do before long."""
    click.echo("Vacuuming and analysing", err=True)
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM (ANALYZE) jobs, job_events"))


@contextmanager
def _bar(label: str, length: int) -> Iterator[Any]:
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar


def _make_days(session: Session, now: datetime) -> None:
    """The ledger of each day stands by itself, as if it had been made ahead."""
    have, today = partitions.days(session), partitions.today_utc(session)
    for day in (today - timedelta(days=back) for back in range(DAYS + 1)):
        if day not in have:
            partitions.make(session, day)
            session.commit()


def _in_parts(lines: list[Line]) -> Iterator[list[Line]]:
    for start in range(0, len(lines), _LINES):
        yield lines[start : start + _LINES]


def _of_kinds(now: datetime) -> list[Line]:
    held = {"scope": scope_of(HELD_KIND), "event": Event.KIND_HELD, "actor": PEOPLE[0]}
    return [held | {"reason": "the bank asks us to wait", "at": now - timedelta(hours=1)}]


def _of_workers(now: datetime) -> Iterator[Line]:
    """The signs of the last day, and how those ended that work no more."""
    for back in range(_DAY // _SIGN, -1, -1):
        for name in LIVE:
            yield _line(Event.WORKER_SEEN, name, now - back * _SIGN, data=sign_of(name))
    for place, name in enumerate(BEFORE):
        end = now - timedelta(minutes=25 * (place + 1))
        yield _line(Event.WORKER_SEEN, name, end - timedelta(hours=1), data=sign_of(name))
        yield _line(Event.WORKER_SEEN, name, end - timedelta(seconds=10), data=sign_of(name))
        yield _line(Event.WORKER_STOPPED, name, end, reason="SIGTERM")


def _line(event: Event, worker: str, at: datetime, **fields: Any) -> Line:
    scope = f"worker:{worker}"
    return {"scope": scope, "event": event, "actor": scope, "at": at, **fields}


def _operate(session: Session) -> None:
    """Let people plan, apply and stop operations, through the verbs."""
    failed = [one[2] for one in CONTENT.errors]
    for place, fingerprint in enumerate(failed):
        where = JobFilter(status=(Status.FAILED,), fingerprint=fingerprint)
        _plan(session, "retry", where, place, end="leave" if place % 3 else "stop")
    for place, kind in enumerate(CONTENT.kinds[-4:]):
        where = JobFilter(status=(Status.QUEUED,), kind=kind)
        _plan(session, "cancel", where, place, end="stop" if place == 0 else "apply")


def _plan(session: Session, verb: str, where: JobFilter, place: int, *, end: str) -> None:
    actor, reason = PEOPLE[place % len(PEOPLE)], "the provider is back"
    found = operations.survey(session, verb, where)
    planned = operations.plan(session, found, how={}, actor=actor, reason=reason, via="console")
    session.commit()
    while end == "apply" and not planned.is_over:
        planned = operations.step(session, planned.id, actor=actor, via="console")
        session.commit()
    if end == "stop":
        operations.stop(session, planned.id, actor=actor, reason="not now", via="console")
        session.commit()
