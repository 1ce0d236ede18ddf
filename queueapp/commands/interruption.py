"""A person at Ctrl-C: heard while a command runs its processes, so that it can stop them first."""

from __future__ import annotations

import signal
import time
from typing import Any, Self

# The exit status of a command that Ctrl-C has ended, as a shell has it: 128 and the signal.
INTERRUPTED = 130
_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# The handler takes no lock, which the main thread might hold: those who wait look again.
_TICK_S = 0.05


class Interruption:
    """Counts the signals that ask this process to end, while it is entered."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._heard) for number in _CAUGHT}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, *_args: Any) -> None:
        self.count += 1

    def wait(self, seconds: float) -> bool:
        """Sleep until a signal has come, for ``seconds`` at most; whether one has."""
        deadline = time.monotonic() + seconds
        while not self.count and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _TICK_S))
        return self.count > 0

    def in_a_hurry(self) -> bool:
        """Whether the person asked twice."""
        return self.count > 1
