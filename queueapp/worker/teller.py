"""Writes the lines about settled jobs, beside the pump.

A write to the log is a system call, during which the handlers' threads take over: the pump would
come to its next turn only when they have finished what it has just brought them, and the server
would wait for it meanwhile.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence

from queueapp.worker import story
from queueapp.worker.loop import Loop
from queueapp.worker.story import Settled

# Turns that may wait to be told. Whoever reads the log slower than that slows the pump, as a log
# without a queue would.
MOST_TURNS = 4
_UNTIL_WOKEN_S = 60.0


class Teller(Loop):
    """The pump says what has settled, this loop tells it, in that order."""

    def __init__(self, gave_up: Callable[[str], None]) -> None:
        super().__init__("log", self.tell, gave_up)
        self._turns: queue.SimpleQueue[Sequence[Settled]] = queue.SimpleQueue()

    def settled(self, ended: Sequence[Settled]) -> None:
        """Take what one turn has settled."""
        if not ended:
            return
        self._turns.put(ended)
        if self._turns.qsize() > MOST_TURNS:
            self.tell()
        else:
            self.wake()

    def tell(self) -> float:
        """Tell all that waits. Returns how long to wait for more."""
        try:
            while True:
                story.settled(self._turns.get_nowait())
        except queue.Empty:
            return _UNTIL_WOKEN_S
