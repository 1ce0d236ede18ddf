"""Settles what the pump gives it, on a connection of its own, while the pump claims.

One statement after another keeps one processor of the server at work. Under a deep queue of tiny
jobs that is what bounds a process, so a large batch of successes goes this way, and the pump's
statement has little left to do but to claim. What cannot be written here goes back to the pump,
which finds out why: here nothing is decided.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from queueapp.jobs import transitions
from queueapp.jobs.transitions import Outcome
from queueapp.worker.inbox import Inbox
from queueapp.worker.line import Line
from queueapp.worker.loop import Loop
from queueapp.worker.unwritten import Unwritten

# Fewer are settled by the pump's own statement for less than a second commit costs.
LEAST = 64
# After a failure the pump settles all for this long, and the connection is for somebody else.
REST_S = 10.0
# It keeps its connection so long after a batch.
CONNECTED_S = 10.0
_UNTIL_WOKEN_S = 3600.0


class Settler(Loop):
    """The pump gives, this loop writes. It has one batch at a time."""

    def __init__(
        self, line: Line, inbox: Inbox, actor: str, gave_up: Callable[[str], None]
    ) -> None:
        super().__init__("settler", self.tick, gave_up)
        self.line = line
        self._inbox = inbox
        self._actor = actor
        self._given: Sequence[Outcome] = ()
        self._rests_until = 0.0
        self._lock = threading.Lock()
        self._ended = False

    @property
    def is_free(self) -> bool:
        """Whether a batch may be given now."""
        return not self._given and self.is_alive() and time.monotonic() >= self._rests_until

    def relieve(self, unwritten: Unwritten) -> None:
        """Take over the successes, if they are many. For the pump's thread."""
        if self.is_free and len(unwritten) >= LEAST:
            successes = unwritten.take_successes(LEAST)
            if successes:
                self.settle(successes)

    def settle(self, successes: Sequence[Outcome]) -> None:
        """Take over a batch, when free."""
        with self._lock:
            if not self._ended:
                self._given = successes
                self.wake()
                return
        self._inbox.put(*successes)

    def rest(self) -> None:
        """Let go of the connection: others need one more."""
        self._rests_until = time.monotonic() + REST_S
        self.wake()

    def run(self) -> None:
        """Work until stopped; what was given and not begun goes back to the pump."""
        super().run()
        with self._lock:
            self._ended = True
        self._inbox.put(*self._given)

    def tick(self) -> float:
        """Write what was given; with nothing to write, give the connection back."""
        if given := self._given:
            self._write(given)
            return CONNECTED_S
        self.line.drop()
        return _UNTIL_WOKEN_S

    def _write(self, given: Sequence[Outcome]) -> None:
        accepted: dict[UUID, str] = {}
        try:
            with self.line.use() as connection:
                accepted = transitions.settle(connection, given, actor=self._actor)
        except BaseException:
            self._rests_until = time.monotonic() + REST_S
            raise
        finally:
            # Free before it says so: the pump has the next batch as soon as it hears.
            self._given = ()
            self._inbox.written(*(one for one in given if one.token in accepted))
            self._inbox.put(*(one for one in given if one.token not in accepted))
