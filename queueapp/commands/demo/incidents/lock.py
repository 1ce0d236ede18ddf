"""Locks: what a forgotten psql holds, so that nobody can claim; and one incident at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import click
import psycopg
from sqlalchemy.engine import make_url

from queueapp.jobs.connection_names import connection_name

# Held by whoever builds an index or a foreign key; reading goes on, no row can be written.
_HOLD = "LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE"
# What a claim asks for first.
_CLAIM = "LOCK TABLE jobs IN ROW EXCLUSIVE MODE"

_TRY_ALONE = "SELECT pg_try_advisory_lock(hashtextextended('queueapp-incident', 0))"
_WHO_RUNS = """
SELECT application_name, to_char(backend_start, 'HH24:MI:SS TZ') FROM pg_stat_activity
WHERE datname = current_database() AND starts_with(application_name, %s)
  AND pid <> pg_backend_pid()
ORDER BY backend_start LIMIT 1
"""
# Not as connections of the product are called, for it is none.
_RUNS = "queue-incident "


def connect(url: str, name: str) -> psycopg.Connection[Any]:
    """Connect as ``name``, in a transaction from the first statement on."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, application_name=name, connect_timeout=10)


@contextmanager
def only_one(url: str, name: str) -> Iterator[None]:
    """Let no other incident begin or be removed in this database meanwhile.

    Raises ClickException where one runs.
    """
    # Not with ``with``, which would commit on a connection that may be gone.
    with closing(connect(url, _RUNS + name)) as connection:
        connection.autocommit = True
        if connection.execute(_TRY_ALONE).fetchone() != (True,):
            found = connection.execute(_WHO_RUNS, [_RUNS]).fetchone()
            which = f" ({found[0].removeprefix(_RUNS)}, since {found[1]})" if found else ""
            raise click.ClickException(
                f"an incident runs already{which}: end it with Ctrl-C first, where it was begun"
            )
        yield


@contextmanager
def workers_wait(url: str, workers: Sequence[str]) -> Iterator[Callable[[], bool]]:
    """Hold the lock, and let a connection of each worker wait for it; whether they still do."""
    with ExitStack() as stack:
        waiting = [
            stack.enter_context(connect(url, connection_name("work", name))) for name in workers
        ]
        with connect(url, "psql") as holder:
            holder.execute(_HOLD)
            threads = [
                threading.Thread(target=_wait, args=(one,), name="drill", daemon=True)
                for one in waiting
            ]
            for thread in threads:
                thread.start()
            try:
                yield lambda: any(thread.is_alive() for thread in threads)
            finally:
                # The operator may have ended it.
                with suppress(psycopg.Error):
                    holder.rollback()
        for thread in threads:
            thread.join()


def _wait(connection: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.Error):
        connection.execute(_CLAIM)
        connection.rollback()
