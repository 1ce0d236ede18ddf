"""``flask demo``: the whole queue at work on this machine, until Ctrl-C."""

from __future__ import annotations

import random
import socket
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import flask_migrate
import urllib3
from flask import Flask, current_app
from sqlalchemy.engine import make_url

from queueapp.commands import children
from queueapp.commands.demo import stream
from queueapp.commands.demo.receiver import Receiver
from queueapp.commands.interruption import Interruption
from queueapp.commands.parameters import Duration
from queueapp.config import needs_database_url
from queueapp.connections import address_of
from queueapp.extensions import db

_FIRST_JOBS = 25
_EVERY_S = 0.35
_REPORT_EVERY_S = 5.0
# A cold machine compiles every module first.
_START_S = 90.0
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - looked for in the Procfile, to be replaced


def init_app(app: Flask) -> None:
    """Register the command with ``app``."""
    app.cli.command("demo")(demo)


@dataclass
class _Demo:
    """What the running demo consists of."""

    url: str
    http: urllib3.PoolManager
    running: list[children.Child] = field(default_factory=list)
    stop: Interruption = field(default_factory=Interruption)


@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--workers", type=click.IntRange(1, 16), default=1, show_default=True)
@click.option("--duration", type=Duration(), help="Stop by itself after this long: 30s, 5m.")
@click.option(
    "--into-database-url",
    is_flag=True,
    help="Migrate and fill the database that DATABASE_URL names; without this it is refused.",
)
def demo(port: int, workers: int, duration: float | None, into_database_url: bool) -> None:
    """Run web, worker, webhooks and a stream of jobs; stop with Ctrl-C.

    The jobs go into a database of the demo's own on this machine. Where DATABASE_URL is set, the
    demo does not touch that database unless --into-database-url says so.

    \b
    Examples:
      flask demo
      flask demo --port 8080 --workers 3
      flask demo --duration 2m
    """
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    if needs_database_url(app.extensions["queue_settings"]):
        raise click.ClickException(
            "the demo fills the database with made-up jobs, so it does not run in production"
        )
    if app.extensions["queue_settings"].database_url and not into_database_url:
        raise click.ClickException(
            "DATABASE_URL is set, and the demo would migrate that database and fill it with "
            "made-up jobs: unset it, or give --into-database-url"
        )
    port = _free_port(port)
    with ExitStack() as stack:
        receiver = stack.enter_context(closing(Receiver(port + 1)))
        run = _Demo(f"http://127.0.0.1:{port}", urllib3.PoolManager(timeout=5, retries=False))
        stack.enter_context(run.stop)
        stack.callback(lambda: children.stop_all(run.running, run.stop.in_a_hurry))
        _start(app, run, port, workers, receiver.host)
        _introduce(app, run)
        _feed(run, receiver.host, duration)
        click.echo("Stopping")
    click.echo("Stopped")


def _free_port(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
            click.echo(f"Port {wanted} is taken; using {probe.getsockname()[1]}")
        port: int = probe.getsockname()[1]
        return port


def _start(app: Flask, run: _Demo, port: int, workers: int, receiver: str) -> None:
    url = address_of(app).url
    flask_migrate.upgrade()
    db.engine.dispose()
    environment = {
        "DATABASE_URL": url,
        "PORT": str(port),
        "QUEUE_GRACE": "2s",
        "QUEUE_BACKOFF_BASE": "2s",
        # Whatever guards the queue of whoever tries it: the demo is for the machine itself.
        "QUEUE_TOKENS": "",
        "QUEUE_TOKENS_FILE": "",
        "QUEUE_USERS": "",
        "QUEUE_USERS_FILE": "",
        "QUEUE_TRUSTED_PROXIES": "",
        "QUEUE_PROXY_USER_HEADER": "",
        "QUEUE_HTTP_ALLOWED_HOSTS": receiver,
        "QUEUE_HTTP_ALLOW_PRIVATE": "1",
    }
    home, logs = Path(app.root_path), Path(app.instance_path) / "demo" / str(port)
    commands = children.procfile(home)
    lines = {"web": commands["web"].replace(_EVERYWHERE, "127.0.0.1")}
    lines |= {f"worker-{n}": commands["worker"] for n in range(1, workers + 1)}
    for name, line in lines.items():
        log = logs / f"{name}.log"
        run.running.append(children.start(name, line, home=home, log=log, environment=environment))
    _wait_until_ready(run)


def _wait_until_ready(run: _Demo) -> None:
    deadline = time.monotonic() + _START_S
    while not run.stop.wait(0.1):
        for child in run.running:
            child.must_run()
        if _get(run, "/readyz") is not None:
            return
        if time.monotonic() > deadline:
            raise children.ChildDied(f"the web process does not answer at {run.url}/readyz")


def _introduce(app: Flask, run: _Demo) -> None:
    address = make_url(address_of(app).url)
    database = address.set(drivername="postgresql").render_as_string(hide_password=True)
    logs = ", ".join(str(child.log) for child in run.running)
    click.echo(
        f"\n  Console   {click.style(run.url + '/', bold=True)}\n"
        f"  API       {run.url}/api/jobs\n"
        f"  Database  {database}\n"
        f"  Logs      {logs}\n"
        "\n  Ctrl-C stops all of it.\n"
    )


def _feed(run: _Demo, receiver: str, duration: float | None) -> None:
    """Post jobs and report until a signal, the end of ``duration`` or the death of a child."""
    begun = reported = time.monotonic()
    for number, job in enumerate(stream.jobs(receiver, random.Random())):  # noqa: S311
        if run.stop.wait(0 if number < _FIRST_JOBS else random.uniform(0.5, 1.5) * _EVERY_S):  # noqa: S311
            return
        now = time.monotonic()
        if duration is not None and now - begun >= duration:
            return
        for child in run.running:
            child.must_run()
        _post(run, job)
        if now - reported >= _REPORT_EVERY_S:
            reported = now
            _report(run)


def _post(run: _Demo, job: stream.Job) -> None:
    try:
        answer = run.http.request("POST", f"{run.url}/api/jobs", json=job)
    except urllib3.exceptions.HTTPError as error:
        click.echo(f"  the web process does not answer: {type(error).__name__}")
        return
    if answer.status >= 300:
        click.echo(f"  a job was refused: {answer.json()['detail']}")


def _report(run: _Demo) -> None:
    stats = _get(run, "/api/stats")
    if stats is None:
        return
    counts = {name: _shown(one) for name, one in stats["status"].items()}
    words = " · ".join(f"{name} {count}" for name, count in counts.items() if count != "0")
    age = stats["oldest_due_age_s"]
    waits = "nothing waits" if age is None else f"oldest due {age:.1f} s"
    click.echo(f"  {time.strftime('%H:%M:%S')}  {words} · {waits}")


def _shown(counted: dict[str, Any]) -> str:
    return f"{counted['count']}{'+' if counted['more'] else ''}"


def _get(run: _Demo, path: str) -> dict[str, Any] | None:
    """What ``path`` answers; None while it does not, or not well."""
    try:
        answer = run.http.request("GET", run.url + path)
    except urllib3.exceptions.HTTPError:
        return None
    found: dict[str, Any] = answer.json()
    return found if answer.status == 200 else None
