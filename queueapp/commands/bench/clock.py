"""The time that a run has, and the person who may end it sooner."""

from __future__ import annotations

import time

from queueapp.commands.interruption import Interruption


class Interrupted(Exception):
    """A signal asked for the end."""


class Clock:
    """Counts from its making. ``reserve`` seconds are kept for taking everything away again."""

    def __init__(self, seconds: float, interruption: Interruption) -> None:
        self.seconds = seconds
        self.reserve = min(5.0, seconds / 6)
        self._interruption = interruption
        self._ends_at = time.monotonic() + seconds - self.reserve

    @property
    def left(self) -> float:
        """Seconds left for measuring. Raises Interrupted when somebody asked for the end."""
        if self._interruption.count:
            raise Interrupted
        return self._ends_at - time.monotonic()

    def share(self, part: float, most: float) -> float:
        """Seconds for one measurement: a part of the whole, ``most`` at most, and what is left."""
        return max(0.1, min(self.seconds * part, most, self.left))

    def wait(self, seconds: float) -> None:
        """Sleep, unless somebody asks for the end."""
        if self._interruption.wait(seconds):
            raise Interrupted

    def in_a_hurry(self) -> bool:
        """Whether the person asked twice."""
        return self._interruption.in_a_hurry()
