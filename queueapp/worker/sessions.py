"""Sessions of handlers: each waits for its connection and finds nothing of an earlier one there."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

log = logging.getLogger("queueapp.worker")

FIRST_WAIT_S = 0.25
# A handler's thread looks again often: a connection is free when the job next door has ended.
LONGEST_WAIT_S = 2.0
# One that was returned may be on its way into the pool.
SOON_S = 0.02
# So long what only helps stays without a connection after one was missed.
SHORT_FOR_S = 10.0


class Sessions:
    """Sessions of handlers, on connections that may be fewer than the handlers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._returned = threading.Event()
        self._short_until = 0.0
        event.listen(engine, "checkin", lambda *_: self._returned.set())

    @property
    def are_short(self) -> bool:
        """Whether a handler has lately waited for a connection."""
        return time.monotonic() < self._short_until

    def give_way(self) -> None:
        """Close what sessions have left behind: leases need a connection."""
        pool = self._engine.pool
        self._engine.dispose()
        # Those in use come back to a pool that nobody takes from: they are closed there.
        event.listen(pool, "checkin", _close)
        pool.dispose()

    def open(self, raise_if_stopped: Callable[[], None]) -> Session:
        """A session that has its connection; waits for one as long as the attempt goes on.

        With too few connections jobs take longer, they do not fail: whoever has one returns it.
        """
        session = Session(self._engine)
        wait = FIRST_WAIT_S
        while True:
            try:
                session.connection()
                return session
            except (OperationalError, PoolTimeout) as error:
                session.close()
                log.debug("no connection for a handler's session: %s", type(error).__name__)
            self._short_until = time.monotonic() + SHORT_FOR_S
            raise_if_stopped()
            if self._returned.wait(wait * random.uniform(0.5, 1.0)):  # noqa: S311
                self._returned.clear()
                wait = SOON_S
            else:
                wait = min(wait * 2, LONGEST_WAIT_S)


def clean_sessions(engine: Engine) -> None:
    """Have every connection of ``engine`` begin afresh when it is given back.

    The pool hands the connection of one job to the next. Rolling back undoes neither SET (of a
    time-out, a search path, a role) nor a temporary table, a LISTEN or an advisory lock.

    Not behind a pooler in transaction mode: there the words would reach somebody else's session.
    """
    event.listen(engine, "reset", _discard)


def _close(_connection: Any, record: Any) -> None:
    record.invalidate()


def _discard(connection: Any, _record: Any, state: Any) -> None:
    """Forget the session's state. What raises here has the pool throw the connection away."""
    if state.terminate_only or connection.closed:
        return
    connection.rollback()
    before = connection.autocommit
    connection.autocommit = True
    try:
        connection.execute("DISCARD ALL")
    finally:
        connection.autocommit = before
