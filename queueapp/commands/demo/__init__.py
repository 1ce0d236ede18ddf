"""``flask demo``: the whole queue at work on this machine; incidents; a long history."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, closing
from typing import Any

import click
import urllib3
from click.core import ParameterSource
from flask import Flask
from flask.cli import with_appcontext

from queueapp.application import this_app
from queueapp.commands.demo import processes, stream
from queueapp.commands.demo.filling import fill
from queueapp.commands.demo.incidents import incident
from queueapp.commands.demo.processes import Running
from queueapp.commands.demo.receiver import Receiver
from queueapp.commands.demo.refusals import Refusals
from queueapp.commands.parameters import Duration

_FIRST_JOBS = 25
_EVERY_S = 0.35
_REPORT_EVERY_S = 5.0


def init_app(app: Flask) -> None:
    """Register the commands with ``app``."""
    app.cli.add_command(demo)


@click.group("demo", invoke_without_command=True)
@processes.port_option
@click.option("--workers", type=click.IntRange(1, 16), default=1, show_default=True, metavar="N",
              help="How many worker processes run the jobs.")  # fmt: skip
@click.option("--duration", type=Duration(), help="Stop by itself after this long: 30s, 5m.")
@processes.into_database_url
@with_appcontext
@click.pass_context
def demo(
    context: click.Context,
    port: int,
    workers: int,
    duration: float | None,
    into_database_url: bool,
) -> None:
    """Run web, worker, webhooks and a stream of jobs; stop with Ctrl-C.

    The jobs go into the local database of this folder, which every flask command has without
    DATABASE_URL. Where that is set, the demo does not touch its database unless
    --into-database-url says so.

    \b
    Examples:
      flask demo
      flask demo --port 8080 --workers 3
      flask demo --duration 2m
      flask demo incident --list
      flask demo fill
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    app = this_app()
    processes.refuse_unless_for_play(app, into_database_url=into_database_url)
    port = processes.free_port(port)
    with ExitStack() as stack:
        receiver = stack.enter_context(closing(Receiver(port + 1)))
        run = Running(f"http://127.0.0.1:{port}")
        stack.enter_context(run.stop)
        stack.callback(run.end)
        processes.migrate(app)
        processes.start(app, run, port, workers=workers, also=_settings(receiver))
        processes.introduce(app, run, receiver.host)
        _feed(run, receiver.host, duration)
        click.echo("Stopping")
    click.echo("Stopped")


demo.add_command(fill)
demo.add_command(incident)


def _refuse_options(context: click.Context) -> None:
    """What stands before the name of a command below would not be heeded by it."""
    for name in context.params:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            below = context.invoked_subcommand
            raise click.UsageError(f"put the options behind {below}: flask demo {below} …")


def _settings(receiver: Receiver) -> dict[str, str]:
    return {
        "QUEUE_GRACE": "2s",
        "QUEUE_BACKOFF_BASE": "2s",
        "QUEUE_HTTP_ALLOWED_HOSTS": receiver.host,
        "QUEUE_HTTP_ALLOW_PRIVATE": "1",
    }


def _feed(run: Running, receiver: str, duration: float | None) -> None:
    """Post jobs, report and keep all running until a signal or the end of ``duration``."""
    with closing(Refusals()) as refusals:
        _go_on(run, receiver, duration, refusals)


def _go_on(run: Running, receiver: str, duration: float | None, refusals: Refusals) -> None:
    begun = reported = time.monotonic()
    for number, job in enumerate(stream.jobs(receiver, random.Random())):  # noqa: S311
        if run.stop.wait(0 if number < _FIRST_JOBS else random.uniform(0.5, 1.5) * _EVERY_S):  # noqa: S311
            return
        now = time.monotonic()
        if duration is not None and now - begun >= duration:
            return
        run.keep_running()
        refusals.note(_post(run, job))
        if now - reported >= _REPORT_EVERY_S:
            reported = now
            _report(run)


def _post(run: Running, job: stream.Job) -> str | None:
    """Post one job; why it was not taken, None where it was."""
    try:
        answer = run.http.request("POST", f"{run.url}/api/jobs", json=job)
    except urllib3.exceptions.HTTPError as error:
        return f"the web process does not answer: {type(error).__name__}"
    return f"a job was refused: {answer.json()['detail']}" if answer.status >= 300 else None


def _report(run: Running) -> None:
    stats = run.get("/api/stats")
    if stats is None:
        return
    counts = {name: _shown(one) for name, one in stats["status"].items()}
    words = " · ".join(f"{name} {count}" for name, count in counts.items() if count != "0")
    age = stats["oldest_due_age_s"]
    waits = "nothing waits" if age is None else f"oldest due {age:.1f} s"
    click.echo(f"  {time.strftime('%H:%M:%S')}  {words} · {waits}")


def _shown(counted: dict[str, Any]) -> str:
    return f"{counted['count']}{'+' if counted['more'] else ''}"
