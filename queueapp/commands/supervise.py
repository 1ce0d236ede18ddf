"""``flask work`` with more than one process: what the supervisor starts, and what it does about a
process that died."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import click
import psycopg
from flask import Flask
from flask.cli import ScriptInfo
from sqlalchemy.exc import SQLAlchemyError

from queueapp.config import Settings
from queueapp.connections import address_of, worker_engine
from queueapp.jobs import transitions
from queueapp.jobs.transitions import Death
from queueapp.worker import Terms, alone, story
from queueapp.worker.line import Line
from queueapp.worker.supervision import Supervisor
from queueapp.worker.supervision.child import Child

log = logging.getLogger("queueapp.worker")

# When the database does not take it by then, the leases run out as they would have done.
AGAIN_AFTER_S = (0.5, 1.0, 2.0, 4.0, 8.0)


def run(
    app: Flask,
    settings: Settings,
    terms: Terms,
    *,
    processes: int,
    options: Mapping[str, Any],
    for_good: bool,
    lock: int | None = None,
) -> int:
    """Supervise ``processes`` workers with these options until the end; the exit status.

    ``lock``: the descriptor of SQLite's lock, which its worker holds as well.
    """
    command = [sys.executable, "-m", "flask", *_application(), "work", *_words(options)]
    # A local PostgreSQL is held here: it stays while workers come and go.
    environment = {"DATABASE_URL": address_of(app).url}
    keeps: list[int] = []
    if lock is not None:
        environment[alone.VARIABLE] = str(lock)
        keeps.append(lock)
    supervisor = Supervisor(
        lambda: Child(command, environment, keeps),
        lambda death: _take_back(app, settings, terms, death),
        processes=processes,
        grace=terms.grace,
        drain=terms.drain,
    )
    needs = terms.needs
    log.info(
        "supervisor %d: %d worker processes of %d threads; database connections: %d, %d at most",
        os.getpid(), processes, terms.concurrency, processes * needs.always,
        processes * needs.most,
    )  # fmt: skip
    return supervisor.run(for_good=for_good)


def _application() -> list[str]:
    """How this process was told where the application is."""
    told = click.get_current_context().ensure_object(ScriptInfo).app_import_path
    return ["--app", told] if told else []


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    """The options of this process again, without the number of processes."""
    yield "--processes=1"
    for name, value in options.items():
        word = f"--{name.replace('_', '-')}"
        if value is True:
            yield word
        elif isinstance(value, float):
            yield f"{word}={value:f}"
        elif value is not None and value is not False:
            yield f"{word}={value}"


def _take_back(app: Flask, settings: Settings, terms: Terms, death: Death) -> None:
    """Give the jobs of a dead process back at once, on a connection for just that."""
    for wait in (*AGAIN_AFTER_S, None):
        try:
            taken = _take_back_once(app, settings, terms, death)
        except (SQLAlchemyError, psycopg.Error) as error:
            log.debug("jobs of %s: %s", death.holder, type(error).__name__)
        else:
            for lease in taken:
                story.bereaved(lease, death)
            return
        if wait is not None:
            time.sleep(wait)
    log.warning("jobs of %s could not be taken back: their leases will run out", death.holder)


def _take_back_once(
    app: Flask, settings: Settings, terms: Terms, death: Death
) -> list[transitions.Expired]:
    actor = f"supervisor:{socket.gethostname()}:{os.getpid()}"
    engine = worker_engine(app, settings, connections=1)
    line = Line(engine)
    try:
        with line.transaction() as connection:
            return transitions.take_back(connection, death, actor=actor, backoff=terms.backoff)
    finally:
        line.drop()
        engine.dispose()
