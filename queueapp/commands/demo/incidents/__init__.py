"""``flask demo incident``: something to practise on, that ends with the command or with --clear."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click
import psycopg
from flask import Flask
from flask.cli import with_appcontext
from psycopg import sql
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from queueapp import judgement
from queueapp.application import this_app
from queueapp.commands.demo import processes
from queueapp.commands.demo.incidents.cast import Cast
from queueapp.commands.demo.incidents.catalogue import INCIDENTS, RUNAWAY_JOBS, Incident, runaway
from queueapp.commands.demo.incidents.lock import only_one, workers_wait
from queueapp.commands.demo.incidents.place import printed, told_if_gone, written_down
from queueapp.commands.demo.incidents.stage import CREW, KINDS, PRODUCER, Stage
from queueapp.commands.demo.processes import Running
from queueapp.commands.parameters import Duration
from queueapp.connections import address_of
from queueapp.extensions import db
from queueapp.jobs.past import forget

# What drills have to themselves in the PostgreSQL of the demo.
DATABASE = "queue_drill"
_TICK_S = 1.0
_WIDTH = 92


@click.command()
@click.argument("name", required=False, type=click.Choice(list(INCIDENTS)), metavar="[INCIDENT]")
@click.option("--list", "listed", is_flag=True, help="Say what each incident is, and end.")
@click.option("--leave", is_flag=True, help="Write it and end; it stands until --clear.")
@click.option("--clear", "cleared", is_flag=True, help="Remove what was left, and end.")
@click.option(
    "--jobs",
    type=click.IntRange(100, 100_000),
    default=RUNAWAY_JOBS,
    show_default=True,
    metavar="N",
    help="How many jobs the runaway producer has made.",
)
@processes.port_option
@click.option("--duration", type=Duration(), help="Stop by itself after this long: 30s, 5m.")
@processes.into_database_url
@with_appcontext
def incident(
    name: str | None,
    listed: bool,
    leave: bool,
    cleared: bool,
    jobs: int,
    port: int,
    duration: float | None,
    into_database_url: bool,
) -> None:
    """Make an incident to practise on, with a console to end it in.

    It lasts until Ctrl-C and is then removed, jobs and ledger. Its workers are names only: they
    sign, renew, stop when they are asked to and work off what is due, but no handler runs.

    It has a database of its own on this machine. With --leave it is made in that of the demo, and
    with --into-database-url in the one that DATABASE_URL names; there what has happened of late
    counts as well.

    \b
    Examples:
      flask demo incident --list
      flask demo incident slots-held
      flask demo incident runaway --jobs 20000 --port 8080
      flask demo incident paused --leave; flask verdict; flask demo incident --clear
    """
    if listed:
        click.echo("\n\n".join(_described(one, told) for one, told in INCIDENTS.items()))
        return
    app = this_app()
    _refuse_what_makes_no_sense(app, name, leave=leave, cleared=cleared)
    processes.refuse_unless_for_play(app, into_database_url=into_database_url)
    if name and not leave:
        port = processes.free_port(port)
    place = app if leave or cleared or into_database_url else apart(app)
    with place.app_context(), told_if_gone(), only_one(address_of(place).url, name or "--clear"):
        _make_there(place, name, jobs=jobs, leave=leave, port=port, duration=duration)


def apart(app: Flask) -> Flask:
    """The application in a database that drills have to themselves, beside that of ``app``."""
    # The application imports its commands.
    from queueapp import create_app

    url = make_url(address_of(app).url)
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True, connect_timeout=10) as connection:
        found = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(found, [DATABASE]).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    return create_app({"DATABASE_URL": url.set(database=DATABASE).render_as_string(False)})


def _make_there(
    app: Flask, name: str | None, *, jobs: int, leave: bool, port: int, duration: float | None
) -> None:
    """Make, play and remove it, or only remove what was left."""
    processes.migrate(app)
    _refuse_beside_a_worker(app)
    with Session(db.engine) as session:
        gone = clear(session)
        if name is None:
            click.echo(f"Removed {gone} jobs." if gone else "There was no incident.")
            return
        stands = False
        try:
            made = make(session, name, jobs=jobs)
            if leave:
                _introduce(app, name, "a console of this database (flask run starts one)")
                stands = True
            else:
                _play(app, made, port, duration)
        finally:
            if not stands:
                session.rollback()
                clear(session)
    click.echo("It stands until --clear." if stands else "The incident is over and removed.")


def make(session: Session, name: str, *, jobs: int = RUNAWAY_JOBS) -> Stage:
    """Make the incident ``name``; all but the lock of ``locked`` stands in the database then."""
    stage = Stage(session, name)
    (runaway(jobs) if name == "runaway" else INCIDENTS[name].make)(stage)
    stage.past.count_on()
    return stage


def clear(session: Session) -> int:
    """Remove what an incident has left, and what was paused or held in it; how many jobs."""
    jobs = forget(session, producer=PRODUCER, kinds=KINDS)
    session.commit()
    return jobs


def _refuse_what_makes_no_sense(
    app: Flask, name: str | None, *, leave: bool, cleared: bool
) -> None:
    if (name is None) is not cleared:
        raise click.UsageError("name one incident, or give --list or --clear")
    if name == "locked" and leave:
        raise click.UsageError("a lock ends with its process: locked cannot be left")
    if app.extensions["queue_settings"].is_sqlite:
        raise click.ClickException("incidents need PostgreSQL: unset DATABASE_URL for one here")


def _refuse_beside_a_worker(app: Flask) -> None:
    """Whoever works here would work the incident off, and sign that all is well."""
    if worker := processes.real_worker(app, made={"drill"}):
        raise click.ClickException(
            f"{worker} works on this database and would end the incident: stop it first"
        )


def _play(app: Flask, stage: Stage, port: int, duration: float | None) -> None:
    """Serve a console and let the incident go on, until a signal or the end of ``duration``."""
    url = address_of(app).url
    run = Running(f"http://127.0.0.1:{port}")
    with ExitStack() as stack:
        stack.enter_context(run.stop)
        stack.callback(run.end)
        cast = Cast(stage, url)
        if stage.drill == "locked":
            cast = Cast(stage, url, is_blocked=stack.enter_context(workers_wait(url, CREW)))
        stack.enter_context(cast)
        processes.start(app, run, port, workers=0, also={"QUEUE_DRILL": "1"})
        path = stack.enter_context(written_down(url, processes.home_of(app, port)))
        _introduce(app, stage.drill, run.url + "/")
        click.echo(f"{printed(url, path)}\n\n  Ctrl-C ends it and removes it.")
        _go_on(app, run, INCIDENTS[stage.drill].rule, cast.tick, duration)


def _go_on(
    app: Flask, run: Running, rule: str, tick: Callable[[], None], duration: float | None
) -> None:
    begun, shown, is_late = time.monotonic(), "", not _is_there(app, rule)
    while not run.stop.wait(_TICK_S):
        if duration is not None and time.monotonic() - begun >= duration:
            return
        run.must_run()
        tick()
        verdict = judgement.look_or_say_why(app).verdict.first
        if verdict.title != shown:
            shown = verdict.title
            as_expected = ", as expected" if is_late and verdict.rule == rule else ""
            is_late = is_late and not as_expected
            told = f"{verdict.level.upper()} {shown}{as_expected}"
            click.echo(f"  {time.strftime('%H:%M:%S')}  {told}")


def _is_there(app: Flask, rule: str) -> bool:
    return judgement.look_or_say_why(app).verdict.first.rule == rule


def _introduce(app: Flask, name: str, where: str) -> None:
    told = INCIDENTS[name]
    click.echo(f"\n{_described(name, told)}\n\n  Open      {click.style(where, bold=True)}")
    found = judgement.look(app).verdict.first
    click.echo(f"  It says   {_wrapped(f'{found.level.upper()} {found.title}: {found.sentence}')}")
    if found.rule != told.rule:
        click.echo(
            "  Expected  "
            + _wrapped(
                f"the rule {told.rule}. What else happened in this database of late still counts:"
                " jobs that ended for two minutes, failures and the lift of a pause or a hold for"
                " ten. Without --leave it has a database of its own, which shows it at once."
            )
        )


def _described(name: str, told: Incident) -> str:
    verdict = f"{told.rule} ({told.level})"
    rows: list[tuple[str, Any]] = [
        ("verdict", verdict), ("you see", told.sees), ("you do", told.path),
        ("clicks", told.clicks),
    ]  # fmt: skip
    lines = [f"  {label:<10}{_wrapped(str(text))}" for label, text in rows]
    return "\n".join([click.style(name, bold=True), *lines])


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH - 12, subsequent_indent=" " * 12)
