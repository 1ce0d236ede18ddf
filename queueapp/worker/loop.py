"""A thread that ticks: backs off when the database fails, and never ends or hangs unseen."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

import psycopg
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger("queueapp.worker")

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 15.0
# Errors that are not the database's are faults of ours: a loop that only fails is no loop.
MOST_FAULTS = 10
# Every wait for the database is bounded, by some minutes for housekeeping's longest: a tick that
# takes this long will take for ever.
HANGS_AFTER_S = 900.0
# One look counts for this long at most: while the whole process was frozen, no tick could end.
MOST_A_LOOK_S = 5.0


def worth_telling(failures: int) -> bool:
    """The first failures in a row and then every tenth: an outage must not fill a disk."""
    return failures <= 3 or failures % 10 == 0


class Loop(threading.Thread):
    """Calls ``tick``, which returns the seconds to wait, until it is stopped or has to give up."""

    def __init__(
        self, name: str, tick: Callable[[], float], gave_up: Callable[[str], None]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._tick = tick
        self._gave_up = gave_up
        self._wanted = threading.Event()
        self._stopping = False
        self._failures = 0
        self._faults = 0
        # The present tick, None between two of them, and what ``hangs`` has seen of it.
        self._ticking: object | None = None
        self._seen: object | None = None
        self._seen_at = self._seen_for = 0.0

    def hangs(self) -> bool:
        """Whether the present tick has been seen for longer than any may take.

        To be asked about every second, by one thread.
        """
        now, ticking = time.monotonic(), self._ticking
        if ticking is None or ticking is not self._seen:
            self._seen, self._seen_for = ticking, 0.0
        else:
            self._seen_for += min(now - self._seen_at, MOST_A_LOOK_S)
        self._seen_at = now
        return self._seen_for > HANGS_AFTER_S

    def wake(self) -> None:
        """Tick now."""
        self._wanted.set()

    def stop(self) -> None:
        """End after the present tick."""
        self._stopping = True
        self._wanted.set()

    def run(self) -> None:
        """Tick until stopped."""
        while not self._stopping:
            self._ticking = object()
            wait = self._once()
            self._ticking = None
            if self._faults >= MOST_FAULTS:
                log.critical("%s gave up after %d faults in a row", self.name, self._faults)
                self._gave_up(self.name)
                return
            if wait > 0:
                self._wanted.wait(wait)
            self._wanted.clear()

    def _once(self) -> float:
        try:
            wait = self._tick()
        except (SQLAlchemyError, psycopg.Error) as error:
            return self._back_off(error)
        # A loop that dies silently is worse than one that is wrong aloud: a SystemExit from some
        # library is no reason to end here.
        except BaseException:
            self._faults += 1
            log.exception("%s failed (%d in a row)", self.name, self._faults)
            return FIRST_WAIT_S * self._faults
        if self._failures:
            log.info("%s goes on", self.name)
        self._failures = self._faults = 0
        return wait

    def _back_off(self, error: Exception) -> float:
        self._failures += 1
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures, 12))
        wait = longest * random.uniform(0.5, 1.0)  # noqa: S311
        cause = getattr(error, "orig", None) or error
        if worth_telling(self._failures):
            log.warning(
                "%s: database error %s, again in %.1fs", self.name, type(cause).__name__, wait
            )
        return wait
