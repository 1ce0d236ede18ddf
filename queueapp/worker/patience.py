"""Wait for a database that does not take us yet: at start, and for the session of a handler."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

log = logging.getLogger("queueapp.worker")

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 15.0
# A handler's thread looks again often: a connection is free when the job next door has ended.
LONGEST_SESSION_WAIT_S = 2.0
# One that was returned may be on its way into the pool.
SOON_S = 0.02
# So long what only helps stays without a connection after one was missed.
SHORT_FOR_S = 10.0
# What no waiting mends. A refused connection has no SQLSTATE for the client, only words, and in
# another language than this one is waited out as well.
_HOPELESS = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
)


def wait_for_database(engine: Engine) -> None:
    """Return when the database takes a connection; raise what no waiting would mend."""
    wait = FIRST_WAIT_S
    while True:
        try:
            engine.connect().close()
            return
        except DBAPIError as error:
            said = str(error.orig).strip()
            if any(words in said for words in _HOPELESS):
                raise
            pause = wait * random.uniform(0.75, 1.25)  # noqa: S311
            log.warning(
                "the database takes no connection yet, trying again in %.1fs: %s",
                pause,
                said.splitlines()[0],
            )
        time.sleep(pause)
        wait = min(wait * 2, LONGEST_WAIT_S)


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
                wait = min(wait * 2, LONGEST_SESSION_WAIT_S)
