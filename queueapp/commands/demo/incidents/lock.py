"""A lock as a forgotten psql holds it: nobody can claim until it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from queueapp.jobs.connection_names import connection_name

# Held by whoever builds an index or a foreign key; reading goes on, no row can be written.
_HOLD = "LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE"
# What a claim asks for first.
_CLAIM = "LOCK TABLE jobs IN ROW EXCLUSIVE MODE"


def connect(url: str, name: str) -> psycopg.Connection[Any]:
    """Connect as ``name``, in a transaction from the first statement on."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, application_name=name, connect_timeout=10)


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
