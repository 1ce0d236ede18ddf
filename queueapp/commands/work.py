"""``flask work``: run jobs."""

from __future__ import annotations

import itertools
import logging
import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click
from alembic.script import ScriptDirectory
from flask import Flask
from flask.cli import with_appcontext

from queueapp.application import this_app
from queueapp.commands import supervise
from queueapp.commands.keeping import keep_of
from queueapp.commands.leaving import is_process, leave
from queueapp.commands.logs import log_to_stderr
from queueapp.commands.parameters import Duration, Size
from queueapp.config import Settings, readers
from queueapp.connections import (
    WORKER_LINES,
    address_of,
    is_nameless,
    listen_connection,
    take_role,
    worker_engine,
)
from queueapp.connections.bounds import Role
from queueapp.errors import DatabaseUnavailable, SettingError
from queueapp.extensions import db
from queueapp.handlers import find
from queueapp.jobs import pooled, readiness
from queueapp.jobs.backoff import Backoff
from queueapp.worker import Terms, Wakeup, Worker, clean_sessions
from queueapp.worker.alone import alone_on, inherit
from queueapp.worker.loop import worth_telling
from queueapp.worker.patience import DRAIN_WAIT_S, is_over, wait_for_database
from queueapp.worker.supervision import Lifeline

log = logging.getLogger("queueapp.worker")

# A database that takes no writes yet is asked again this often.
LOOK_AGAIN_S = 2.0


def init_app(app: Flask) -> None:
    """Register the command."""
    app.cli.add_command(work)


@click.command("work")
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Worker processes; with more than one they are supervised. [QUEUE_PROCESSES]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(0, 500),
    metavar="N",
    help="Handler threads of a process; 0: sweeper and housekeeping only. [QUEUE_CONCURRENCY]",
)
@click.option("--kinds", metavar="A,B", help="Take only these kinds. Default: every kind.")
@click.option(
    "--lease",
    type=Duration(readers.up_to_a_day),
    help="How long a claim lasts unless renewed: 60, 90s, 5m. [QUEUE_LEASE]",
)
@click.option(
    "--grace",
    type=Duration(),
    help="What running handlers get after SIGTERM: 0, 25s, 2m. [QUEUE_GRACE]",
)
@click.option(
    "--prefetch",
    type=click.IntRange(0, 500),
    metavar="N",
    help="Claims held beyond the threads while jobs are tiny; 0: none. [QUEUE_PREFETCH]",
)
@click.option(
    "--max-jobs",
    type=click.IntRange(0, 1_000_000_000),
    metavar="N",
    help="Replace a process after about so many jobs; 0: never. [QUEUE_MAX_JOBS]",
)
@click.option(
    "--max-rss",
    type=Size(),
    metavar="SIZE",
    help="Replace a process that uses more memory: 512MB, 2GB; 0: never. [QUEUE_MAX_RSS]",
)
@click.option("--drain", is_flag=True,
              help="Run until nothing is due, then exit 0. A database"
              " that is down at the start is waited for 60 s at most.")  # fmt: skip
@with_appcontext
def work(processes: int | None, **options: Any) -> None:
    """Claim due jobs and run them, until stopped.

    One process with a pool of threads, or several of them under a supervisor, which restarts what
    dies and replaces what has done --max-jobs or uses --max-rss. Stop it with SIGTERM or Ctrl-C: it
    claims nothing more, gives running handlers the grace and hands back the rest; a Ctrl-C after
    that hurries. Start as many as you like, on as many machines as you like.

    \b
    Examples:
      flask work
      flask work --concurrency 20 --kinds mail.send,report.build
      flask work --processes 4 --max-jobs 10000
      flask work --drain            # run what is due, then exit (cron, tests)
      JOB_WORKER_LOG_LEVEL=DEBUG flask work

    \b
    Exit statuses: 0 stopped or drained; 1 something died; 69 no database, later perhaps;
    75 replace me; 78 a setting or the schema does not fit. docs/workers.md has them all.
    """
    app = this_app()
    settings: Settings = app.extensions["queue_settings"]
    lifeline = Lifeline.inherited(os.environ)
    log_to_stderr(settings, tell_processes=lifeline is not None)
    terms = terms_of(settings, **options)
    take_role(app, Role.HANDLER)
    deadline = time.monotonic() + DRAIN_WAIT_S if terms.drain else None
    wait_for_database(db.engine, deadline)
    _check_schema(app, deadline)
    wanted = settings.processes if processes is None else processes
    with _right_to_work(settings, wanted, lifeline) as lock:
        if lifeline is None and (wanted > 1 or terms.max_jobs or terms.max_rss):
            db.engine.dispose()
            status = supervise.run(
                app, settings, terms, processes=wanted, options=options, for_good=is_process(),
                lock=lock,
            )  # fmt: skip
        else:
            status = _work(app, settings, terms, lifeline)
    if is_process():
        leave(status)
    if status:
        raise SystemExit(status)


def _right_to_work(
    settings: Settings, processes: int, lifeline: Lifeline | None
) -> AbstractContextManager[int | None]:
    """On SQLite the one lock of its worker, which a supervisor shares with its only child."""
    if not settings.is_sqlite or lifeline is not None:
        inherit(os.environ)
        return nullcontext()
    if processes > 1:
        raise SettingError(
            f"--processes {processes}: SQLite takes one worker process; use more threads, or"
            " PostgreSQL",
            setting="QUEUE_PROCESSES",
        )
    return alone_on(settings.database_url)


def terms_of(settings: Settings, **options: Any) -> Terms:
    """Terms from the settings, with the options that were given in their place."""
    given = {name: value for name, value in options.items() if value is not None}
    only = given.pop("kinds", None)
    kinds = _kinds(only) if only is not None else None
    defaults = {
        "concurrency": settings.concurrency,
        "max_jobs": settings.max_jobs,
        "max_rss": settings.max_rss,
        "prefetch": settings.prefetch,
        "lease": settings.lease,
        "grace": settings.grace,
    }
    chosen = {**defaults, **given}
    if chosen.get("drain") and chosen["concurrency"] == 0:
        raise click.UsageError("--drain needs threads to run what is due: --concurrency is 0")
    return Terms(
        **chosen,
        poll=settings.poll,
        job_timeout=settings.job_timeout,
        only=kinds,
        skip=_not_for_us(settings) if kinds is None else settings.external_kinds,
        backoff=Backoff(settings.backoff_base, settings.backoff_cap, settings.max_handbacks),
        # Without threads nobody waits for new jobs.
        listen=chosen["concurrency"] > 0 and not (settings.pooler or settings.is_sqlite),
        release=settings.release,
        nameless=is_nameless(settings),
    )


def _not_for_us(settings: Settings) -> tuple[str, ...]:
    """Kinds that other programs run, and webhooks where none may be sent."""
    if settings.http_allowed_hosts:
        return settings.external_kinds
    log.info("QUEUE_HTTP_ALLOWED_HOSTS is empty: http.request is left to workers that have it")
    return (*settings.external_kinds, "http.request")


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [kind for kind in kinds if find(kind) is None]
    if not kinds or unknown:
        raise click.BadParameter(
            f"no handler for {', '.join(unknown) or 'an empty list'};"
            " name its module in QUEUE_HANDLERS",
            param_hint="--kinds",
        )
    return kinds


def _check_schema(app: Flask, deadline: float | None) -> None:
    """Say what the database lacks; wait while it takes no writes, as in a failover."""
    for tries in itertools.count(1):
        try:
            warnings = _look(app)
        except DatabaseUnavailable as error:
            if is_over(deadline, after=LOOK_AGAIN_S):
                raise
            if worth_telling(tries):
                log.warning("waiting: %s", error)
            time.sleep(LOOK_AGAIN_S)
            continue
        for warning in warnings:
            log.warning("%s", warning)
        return


def _look(app: Flask) -> list[str]:
    head = ScriptDirectory(app.extensions["migrate"].directory).get_current_head()
    settings: Settings = app.extensions["queue_settings"]
    with db.engine.connect() as connection:
        warnings = readiness.check(connection, head).warnings
        return warnings + pooled.check(connection) if settings.pooler else warnings


def _work(app: Flask, settings: Settings, terms: Terms, lifeline: Lifeline | None) -> int:
    address_of(app).worker = terms.name
    engine = worker_engine(app, settings, connections=WORKER_LINES + terms.settles_beside)
    worker = Worker(app, terms, engine, keep_of(settings), lifeline)
    if terms.listen:
        worker.listen(Wakeup(lambda: listen_connection(app, "listen"), worker.pump.hear))
        clean_sessions(db.engine)
    elif terms.concurrency:
        where = "on SQLite" if settings.is_sqlite else "behind a pooler"
        log.info("%s: no LISTEN, jobs start within %gs", where, terms.poll)
    needs = terms.needs
    log.info(
        "database connections: %d, and one for each handler with a session (%d at most)",
        needs.always, needs.most,
    )  # fmt: skip
    # The check of the schema has left one: the worker's own come first.
    db.engine.dispose()
    try:
        return worker.run(for_good=is_process())
    finally:
        engine.dispose()
