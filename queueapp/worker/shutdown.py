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
# The pump has this long to hear of an end or to write, each time.
FLUSH_S = 3.0
# A loop may be within a tick.
END_S = 0.5
SIGN_OFF_S = 1.0
_LEAVE_S = 1.0
# What a process needs beyond its grace at most, while the database does not answer: the handlers
# are asked, what has ended is written, the loops end, the worker signs off, what remains is handed
# back, the pump ends, and the process.
MARGIN_S = LAST_WORDS_S + FLUSH_S + END_S + SIGN_OFF_S + FLUSH_S + END_S + _LEAVE_S


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
        self._wait_for_pump(lambda: self.pump.closed, FLUSH_S)
        over = began + self.terms.grace
        self._wait_idle(over - time.monotonic())
        if self.attempts.leases():
            self.attempts.interrupt("shutdown")
            self._wait_idle(LAST_WORDS_S, hurry=False)
        for token in self.attempts.unreturned():
            self.inbox.abandon(token)
        remaining = {attempt.claim.token for attempt in self.attempts.leases()}
        # Without a grace the wait for the last claim is part of this one.
        self._flush(remaining, min(FLUSH_S, over + LAST_WORDS_S + FLUSH_S - time.monotonic()))
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
        self._flush(set(), FLUSH_S)
        if self.pump.unsettled:
            log.warning("some outcomes could not be written: their leases will run out")

    def _flush(self, remaining: set[UUID], seconds: float) -> None:
        """Let the pump write what has ended; give up when the database does not take it."""
        self._wait_for_pump(lambda: self.pump.unsettled <= remaining, seconds)

    def _wait_for_pump(self, done: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done() and time.monotonic() < deadline and not self.is_dead():
            self.inbox.wake()
            self.pause(0.02)

    def _end(self, loops: Iterable[Loop]) -> None:
        ending = list(loops)
        for loop in ending:
            loop.stop()
        self.inbox.wake()
        deadline = time.monotonic() + END_S
        for loop in ending:
            loop.join(max(deadline - time.monotonic(), 0.0))
