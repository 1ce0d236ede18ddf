"""Wait at start for a database that does not take us yet."""

from __future__ import annotations

import logging
import random
import time

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from queueapp.connections.refusals import refusal
from queueapp.worker.loop import worth_telling

log = logging.getLogger("queueapp.worker")

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 15.0
# ``flask work --drain`` is a step of something else, which may want to know.
DRAIN_WAIT_S = 60.0


def wait_for_database(engine: Engine, deadline: float | None = None) -> None:
    """Return when the database takes a connection; raise what no waiting would mend.

    ``deadline``: the moment, of the monotonic clock, from which on its absence is raised too.
    """
    wait, tries = FIRST_WAIT_S, 0
    while True:
        try:
            engine.connect().close()
            return
        except DBAPIError as error:
            if refusal(error, str(engine.url)):
                raise
            pause = wait * random.uniform(0.75, 1.25)  # noqa: S311
            if is_over(deadline, after=pause):
                raise
            tries += 1
            if worth_telling(tries):
                log.warning(
                    "the database takes no connection yet, trying again in %.1fs: %s",
                    pause,
                    str(error.orig).strip().splitlines()[0],
                )
        time.sleep(pause)
        wait = min(wait * 2, LONGEST_WAIT_S)


def is_over(deadline: float | None, *, after: float) -> bool:
    """Whether a pause of ``after`` seconds would end behind the deadline."""
    return deadline is not None and time.monotonic() + after > deadline
