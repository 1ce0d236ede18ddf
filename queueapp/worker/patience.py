"""Wait at start for a database that does not take us yet."""

from __future__ import annotations

import logging
import random
import time

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

log = logging.getLogger("queueapp.worker")

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 15.0
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
