"""How the work of one process ends: nothing new, the grace, what remains is handed back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from queueapp.jobs.status import Reason
from queueapp.worker.attempts import Attempts
from queueapp.worker.inbox import Inbox
from queueapp.worker.loop import Loop
from queueapp.worker.outcomes import handed_back
from queueapp.worker.pump import Pump
from queueapp.worker.terms import Terms

log = logging.getLogger("queueapp.worker")

# After being asked to stop a handler has this long to raise before its job is handed back.
LAST_WORDS_S = 1.0
FLUSH_S = 5.0


@dataclass
class Shutdown:
    """Run once, from the main thread. ``pause`` hears signals meanwhile."""

    terms: Terms
    attempts: Attempts
    inbox: Inbox
    pump: Pump
    loops: Sequence[Loop]
    pause: Callable[[float], None]
    is_hurried: Callable[[], bool]
    is_dead: Callable[[], bool]

    def run(self) -> None:
        """End it all, loops included. A worker with a dead loop waits for nothing."""
        began = time.monotonic()
        self.pump.claiming = False
        for loop in self.loops:
            loop.wake()
        # A claim may be under way: it has to arrive before anybody can say that nothing runs.
        self._wait_for_pump(lambda: self.pump.closed)
        self._wait_idle(self.terms.grace - (time.monotonic() - began))
        if self.attempts.leases():
            self.attempts.interrupt("shutdown")
            self._wait_idle(LAST_WORDS_S, hurry=False)
        self._hand_back()
        self._flush()
        self._end_loops()

    def _wait_idle(self, seconds: float, *, hurry: bool = True) -> None:
        deadline = time.monotonic() + seconds
        while self.attempts.leases() and not self.is_dead():
            if hurry and self.is_hurried():
                return
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self.pause(min(left, 0.5))

    def _hand_back(self) -> None:
        for token in self.attempts.unreturned():
            self.pump.abandon(token)
        for attempt in self.attempts.leases():
            if self.attempts.give_up(attempt.claim.token):
                log.warning("job %d did not stop in time: handed back", attempt.claim.id)
                self.inbox.put(handed_back(attempt, self.terms, Reason.SHUTDOWN))

    def _flush(self) -> None:
        """Let the pump write what has ended; give up when the database does not take it."""
        self._wait_for_pump(lambda: self.pump.settled)
        if not self.pump.settled:
            log.warning("some outcomes could not be written: their leases will run out")

    def _wait_for_pump(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + FLUSH_S
        while not done() and time.monotonic() < deadline and not self.is_dead():
            self.inbox.wake()
            self.pause(0.02)

    def _end_loops(self) -> None:
        for loop in self.loops:
            loop.stop()
        self.inbox.wake()
        deadline = time.monotonic() + LAST_WORDS_S
        for loop in self.loops:
            loop.join(max(deadline - time.monotonic(), 0.0))
