"""How the work of one process ends: nothing new, the grace, what remains is handed back.

Handing back is the very last step: from then on another worker may run the job, and the thread that
does not stop ends only with its process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

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
    """Run once, from the main thread. ``pause`` hears signals meanwhile.

    ``sign_off`` is called when all but the pump has ended, ``is_dead`` says that a loop has died: a
    worker without it waits for nothing.
    """

    terms: Terms
    attempts: Attempts
    inbox: Inbox
    pump: Pump
    loops: Sequence[Loop]
    pause: Callable[[float], None]
    sign_off: Callable[[], None]
    is_hurried: Callable[[], bool]
    is_dead: Callable[[], bool]

    def run(self) -> None:
        """End it all, loops included."""
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
        for token in self.attempts.unreturned():
            self.inbox.abandon(token)
        self._flush({attempt.claim.token for attempt in self.attempts.leases()})
        pumps = [loop for loop in self.loops if loop.name == "pump"]
        self._end(loop for loop in self.loops if loop not in pumps)
        self.sign_off()
        self._hand_back()
        self._end(pumps)

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
        for attempt in self.attempts.leases():
            if self.attempts.give_up(attempt.claim.token):
                log.warning("job %d did not stop in time: handed back", attempt.claim.id)
                self.inbox.put(handed_back(attempt, self.terms, Reason.SHUTDOWN))
        self._flush(set())
        if self.pump.unsettled:
            log.warning("some outcomes could not be written: their leases will run out")

    def _flush(self, remaining: set[UUID]) -> None:
        """Let the pump write what has ended; give up when the database does not take it."""
        self._wait_for_pump(lambda: self.pump.unsettled <= remaining)

    def _wait_for_pump(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + FLUSH_S
        while not done() and time.monotonic() < deadline and not self.is_dead():
            self.inbox.wake()
            self.pause(0.02)

    def _end(self, loops: Iterable[Loop]) -> None:
        ending = list(loops)
        for loop in ending:
            loop.stop()
        self.inbox.wake()
        deadline = time.monotonic() + LAST_WORDS_S
        for loop in ending:
            loop.join(max(deadline - time.monotonic(), 0.0))
