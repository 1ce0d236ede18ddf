"""What the minute's lines of the last ten minutes tell of a kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class KindCounts:
    """The last ten minutes of a kind.

    ``bad_at``: the end of the newest line in which too large a part of its attempts failed, None
    without any; ``since``: its attempts in the lines after that, ``since_failed`` of them failed.
    ``ended_in``: the ends of the lines in which attempts of it ended, in no order.
    """

    kind: str
    starts: int
    retries: int
    attempts: int
    failures: int
    arrived: int
    since: int = 0
    since_failed: int = 0
    bad_at: datetime | None = None
    ended_in: Sequence[datetime] = ()

    def is_over(self, least: float) -> bool:
        """Whether it fails no more: as many attempts as failed, or ``least``, say so since."""
        return self.bad_at is None or (self._is_better and self.since >= self._enough(least))

    def is_mending(self, least: float) -> bool:
        """Whether a quarter of what it takes to say that it is over says so."""
        return self._is_better and self.since >= self._enough(least) / 4

    @property
    def _is_better(self) -> bool:
        """Whether half as large a part fails at the most: chance alone makes good minutes too."""
        return 2 * self.since_failed * self.attempts <= self.failures * self.since

    def _enough(self, least: float) -> float:
        return max(1.0, min(least, self.failures))
