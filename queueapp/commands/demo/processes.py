"""What runs while ``flask demo`` does: where it may, its processes, and what it asks them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import flask_migrate
import urllib3
from click.core import ParameterSource
from flask import Flask
from sqlalchemy.engine import make_url

from queueapp import judgement
from queueapp.commands import children
from queueapp.commands.interruption import Interruption
from queueapp.config import needs_database_url
from queueapp.connections import address_of
from queueapp.extensions import db

# A cold machine compiles every module first.
_START_S = 90.0
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - looked for in the Procfile, to be replaced

port_option = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8000,
    show_default=True,
    metavar="N",
    help="Where the console is; another port where that is taken.",
)
into_database_url = click.option(
    "--into-database-url",
    is_flag=True,
    help="Migrate and fill the database that DATABASE_URL names; without this it is refused.",
)


@dataclass
class Running:
    """What the running demo consists of."""

    url: str
    http: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(timeout=5, retries=False)
    )
    children: list[children.Child] = field(default_factory=list)
    stop: Interruption = field(default_factory=Interruption)

    def end(self) -> None:
        """Stop all processes."""
        children.stop_all(self.children, self.stop.in_a_hurry)

    def must_run(self) -> None:
        """Raise ChildDied if one of them has ended."""
        for child in self.children:
            child.must_run()

    def keep_running(self) -> None:
        """Start again what has ended, as a platform would, and say so.

        Raises ChildDied for one that ends again and again.
        """
        for child in self.children:
            if child.is_running:
                continue
            pid, how = child.pid, _how(child.status)
            child.start_again()
            click.echo(
                f"  {time.strftime('%H:%M:%S')}  {child.name}, process {pid}, {how}; started again"
                f" as process {child.pid}"
            )

    def get(self, path: str) -> dict[str, Any] | None:
        """What ``path`` answers; None while it does not, or not well."""
        try:
            answer = self.http.request("GET", self.url + path)
            found = answer.json()
        except (urllib3.exceptions.HTTPError, ValueError):
            # No answer, or somebody else's: ours is JSON.
            return None
        return found if answer.status == 200 and isinstance(found, dict) else None


def _how(status: int | None) -> str:
    """How a process has ended, in words."""
    if status is None or status >= 0:
        return f"has ended with status {status}"
    return f"was ended by signal {-status}"


def refuse_unless_for_play(app: Flask, *, into_database_url: bool) -> None:
    """Raise ClickException where made-up jobs have no place."""
    settings = app.extensions["queue_settings"]
    if needs_database_url(settings):
        raise click.ClickException(
            "the demo fills the database with made-up jobs, so it does not run in production"
        )
    if settings.database_url and not into_database_url:
        raise click.ClickException(
            "DATABASE_URL is set, and the demo would migrate that database and fill it with "
            "made-up jobs: unset it, or give --into-database-url"
        )


def real_worker(app: Flask, *, made: Set[str]) -> str | None:
    """A live worker of this database that is more than a name; ``made``: what marks those."""
    facts = judgement.look(app).facts
    signs = facts.signs if facts else None
    live = signs.live(facts.now) if facts and signs else ()
    return next((one.holder for one in live if made.isdisjoint(one.told)), None)


def free_port(wanted: int) -> int:
    """The port; another one where that is taken and nobody has asked for it.

    Raises ClickException where somebody has.
    """
    if local_port(wanted) is not None:
        return wanted
    asked = click.get_current_context().get_parameter_source("port")
    if asked is not ParameterSource.DEFAULT:
        raise click.ClickException(
            f"port {wanted} is taken: give another --port, or end what listens there"
            " (a demo takes the port after its own as well, for its webhooks)"
        )
    found = local_port(0)
    assert found is not None
    click.echo(f"Port {wanted} is taken; using {found}")
    return found


def local_port(wanted: int) -> int | None:
    """The port of this machine, any free one for 0; None where it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return None
        port: int = probe.getsockname()[1]
        return port


def home_of(app: Flask, port: int) -> Path:
    """Where what serves at ``port`` keeps its files."""
    return Path(app.instance_path) / "demo" / str(port)


def migrate(app: Flask) -> None:
    """Bring the database to this release's schema."""
    flask_migrate.upgrade()
    db.engine.dispose()


# Whatever guards the queue of whoever tries it: the demo is for the machine itself.
_GUARDS = (
    "QUEUE_TOKENS",
    "QUEUE_TOKENS_FILE",
    "QUEUE_USERS",
    "QUEUE_USERS_FILE",
    "QUEUE_TRUSTED_PROXIES",
    "QUEUE_PROXY_USER_HEADER",
)


def start(
    app: Flask, run: Running, port: int, *, workers: int, also: Mapping[str, str] | None = None
) -> None:
    """Start web and workers with the environment ``also``, and wait until web answers."""
    environment = {
        "DATABASE_URL": address_of(app).url,
        "PORT": str(port),
        **dict.fromkeys(_GUARDS, ""),
        **(also or {}),
    }
    if unheeded := [name for name in _GUARDS if os.environ.get(name)]:
        click.echo(
            f"Not heeded here: {', '.join(unheeded)}. The demo is open to this machine, and to"
            " nobody else.",
            err=True,
        )
    home, logs = Path(app.root_path), home_of(app, port)
    commands = children.procfile(home)
    lines = {"web": commands["web"].replace(_EVERYWHERE, "127.0.0.1")}
    lines |= {f"worker-{n}": commands["worker"] for n in range(1, workers + 1)}
    for name, line in lines.items():
        log = logs / f"{name}.log"
        run.children.append(children.start(name, line, home=home, log=log, environment=environment))
    _wait_until_ready(run)


def _wait_until_ready(run: Running) -> None:
    deadline = time.monotonic() + _START_S
    while not run.stop.wait(0.1):
        _must_run_at_its_port(run)
        if run.get("/readyz") is not None:
            return
        if time.monotonic() > deadline:
            raise children.ChildDied(f"the web process does not answer at {run.url}/readyz")


def _must_run_at_its_port(run: Running) -> None:
    """Raise ChildDied, or ClickException where somebody took the port before our web process."""
    try:
        run.must_run()
    except children.ChildDied as error:
        port = urllib3.util.parse_url(run.url).port
        if port is None or local_port(port) is not None:
            raise
        raise click.ClickException(
            f"port {port} was taken by somebody else meanwhile: start it again, or give another"
            " --port"
        ) from error


def introduce(app: Flask, run: Running, receiver: str) -> None:
    """Say where everything is."""
    address = make_url(address_of(app).url)
    database = address.set(drivername="postgresql").render_as_string(hide_password=True)
    logs = ", ".join(str(child.log) for child in run.children)
    workers = " ".join(str(child.pid) for child in run.children if child.name != "web")
    click.echo(
        f"\n  Console   {click.style(run.url + '/', bold=True)}\n"
        f"  API       {run.url}/api/jobs\n"
        f"  Webhooks  http://{receiver}/, a receiver as moody as real ones\n"
        f"  Database  {database}\n"
        f"  Logs      {logs}\n"
        f"\n  To see a crash: kill -9 {workers}. What ends is started again.\n"
        "  Ctrl-C stops all of it.\n"
    )
