"""One reading for everybody in this process: many ask, one reads.

A reading lives for a moment. Who asks after that has it read anew, by one thread at a time; whoever
asks meanwhile gets the one that is there. A reading that fails leaves the one before it in place.

However long the database takes, few threads wait for it: nobody any more when a reading has been on
its way for long, and after a failure none but the one who has it tried again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from flask import Flask

T = TypeVar("T")

log = logging.getLogger(__name__)

LIFE_S = 2.0
# What came in longer ago than this is given to nobody while a newer one is on its way.
OLD_S = 15.0
# Longer than any reading takes: each of its statements has a bound of its own.
PATIENCE_S = 30.0
# How long a reading is waited for from its beginning: less than the script of a page waits for it.
WAIT_S = 5.0


def life_s(app: Flask) -> float:
    """How long a reading of ``app`` serves; in tests everybody looks for himself."""
    return 0.0 if app.config["TESTING"] else LIFE_S


def wait_s(app: Flask) -> float:
    """How long a reading of ``app`` is waited for; a test waits, however busy its machine is."""
    return PATIENCE_S if app.config["TESTING"] else WAIT_S


@dataclass(frozen=True)
class Snapshot(Generic[T]):
    """What was read. ``value`` None: nothing yet; ``failure``: why the last try came to nothing.

    ``age_s``: since its reading began; ``rested_s``: since it came in, None: no time has passed
    between the two.
    """

    value: T | None
    age_s: float
    failure: str | None = None
    rested_s: float | None = None

    @property
    def present(self) -> T | None:
        """The value, unless it is too old to say anything of now.

        One that took long to be read is as new as can be had when it comes in.
        """
        rested_s = self.age_s if self.rested_s is None else self.rested_s
        return self.value if rested_s <= OLD_S else None

    @property
    def why_not(self) -> str:
        """Why there is none of now, in words."""
        return self.failure or "reading it takes longer than anybody waits"


@dataclass
class _Flight(Generic[T]):
    """A reading on its way; ``found``: what it has come to, for those who wait for it."""

    landed: threading.Event = field(default_factory=threading.Event)
    began: float = field(default_factory=time.monotonic)
    process: int = field(default_factory=os.getpid)
    found: Snapshot[T] = field(default_factory=lambda: Snapshot(None, 0.0))

    @property
    def is_lost(self) -> bool:
        """Whether it lands no more: its thread hangs, or is that of the process before a fork."""
        return self.process != os.getpid() or time.monotonic() > self.began + PATIENCE_S


class Shared(Generic[T]):
    """What ``read`` gives, shared by all threads.

    ``life_s``: how long it serves; 0: whoever asks has it read, though never two at a time.
    ``wait_s``: how long it is waited for from the beginning of its reading.
    ``name_failure``: an error in words, None for one that nobody should have to read.
    """

    def __init__(
        self,
        read: Callable[[], T],
        *,
        life_s: float = LIFE_S,
        wait_s: float = WAIT_S,
        name_failure: Callable[[Exception], str | None] = lambda _: None,
    ) -> None:
        self.life_s = life_s
        self.wait_s = wait_s
        self._read = read
        self._name_failure = name_failure
        self._lock = threading.Lock()
        self._flight: _Flight[T] | None = None
        self._value: T | None = None
        self._taken_at = self._landed_at = 0.0
        self._tried_at: float | None = None
        self._failure: str | None = None

    def get(
        self, *, wait_s: float | None = None, life_s: float | None = None, begun: bool = False
    ) -> Snapshot[T]:
        """A reading that is fresh, or the present one while a newer one is on its way.

        Waits ``wait_s`` at most where there is none to be given, or a very old one. ``life_s``: how
        old a fresh one may be at least for whoever asks now; None: as for everybody. ``begun``:
        what ``begin`` gave whoever asks.
        """
        with self._lock:
            if self._is_fresh(life_s):
                return self._snapshot()
            flight, mine = self._flight, False
            if flight is None or flight.is_lost:
                flight, mine = _Flight(), True
                self._flight = flight
            elif not begun and self._has_word():
                return self._snapshot()
        if mine:
            self._begin(flight)
        left_s = flight.began + (self.wait_s if wait_s is None else wait_s) - time.monotonic()
        return flight.found if flight.landed.wait(max(left_s, 0.0)) else self.peek()

    def soon(self, *, wait_s: float | None = None, life_s: float | None = None) -> Snapshot[T]:
        """The present one at once unless it is old; whoever asks next gets a newer one.

        For what need not be of this moment: nobody who polls waits for it then.
        """
        serves = self.life_s > 0 and self.peek().present is not None
        return self.get(wait_s=0.0 if serves else wait_s, life_s=life_s)

    def begin(self, *, life_s: float | None = None) -> bool:
        """Have it read if that is due, for ``get`` in a moment; nobody waits for it meanwhile.

        True: it was begun for whoever asked, who may wait for it whatever the last try came to.
        """
        if not self.life_s:
            return False
        with self._lock:
            if self._is_fresh(life_s) or (self._flight and not self._flight.is_lost):
                return False
            flight = self._flight = _Flight()
        self._begin(flight)
        return True

    def peek(self) -> Snapshot[T]:
        """The present one, whatever its age; nothing is read."""
        with self._lock:
            return self._snapshot()

    def forget(self) -> None:
        """Something was done: whoever asks next has it read anew."""
        with self._lock:
            self._value = self._tried_at = self._flight = self._failure = None

    def _begin(self, flight: _Flight[T]) -> None:
        # A thread of its own: whoever asked has to answer in time, whatever the database does.
        thread = threading.Thread(
            target=self._fly, args=(flight,), name="shared-reading", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # None is to be had. Late is better than never: nobody else would let it land.
            self._fly(flight)

    def _fly(self, flight: _Flight[T]) -> None:
        began, value, failure = time.monotonic(), None, "it was not completed"
        try:
            value, failure = self._read(), ""
        except Exception as error:
            failure = self._name_failure(error) or ""
            if not failure:
                log.exception("a shared reading failed")
                failure = "an error of ours, see the log"
        finally:
            with self._lock:
                # What was begun before something was done that it does not show is for those alone
                # who asked before that.
                flight.found = Snapshot(value, 0.0, failure or None)
                if self._flight is flight:
                    self._tried_at, self._failure = began, failure or None
                    if not failure:
                        self._value, self._taken_at = value, began
                        self._landed_at = time.monotonic()
                    self._flight = None
                    flight.found = self._snapshot()
            flight.landed.set()

    def _is_fresh(self, life_s: float | None) -> bool:
        # Where everybody looks for himself, so does whoever would take an older one.
        life_s = max(self.life_s, life_s or 0.0) if self.life_s else 0.0
        return self._tried_at is not None and time.monotonic() < self._tried_at + life_s

    def _has_word(self) -> bool:
        """Whether there is something of now to be told while a newer one is on its way.

        A failure of long ago is none: nobody has asked since, and it may be over.
        """
        if self._failure and self._tried_at is not None:
            return time.monotonic() <= self._tried_at + OLD_S
        return self._snapshot().present is not None

    def _snapshot(self) -> Snapshot[T]:
        if self._value is None:
            return Snapshot(None, 0.0, self._failure)
        now = time.monotonic()
        return Snapshot(self._value, now - self._taken_at, self._failure, now - self._landed_at)
