"""How much of the queue the next claim looks at: from where the last ended, or all of it.

What came in behind the cursor is found by a whole look, which costs more the more dead entries an
old snapshot keeps. So whole looks take a twentieth of the time at most, and none is left out before
the worker sleeps: it only sleeps until the next one may be, half a minute at most.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.cursor import Cursor

# A whole look is due after so many times its own duration, and not sooner than this.
SHARE = 20
LEAST_GAP_S = 0.02
# Beyond that, after looks of 1.5 s, jobs behind the cursor matter more than the share.
MOST_GAP_S = 30.0


class Looks:
    """The looks of one pump."""

    def __init__(self) -> None:
        self._cursor = Cursor()
        self._filter: object = None
        self._whole_at = 0.0
        self._began: float | None = None
        self._took = 0.0
        self._unanswered = False
        self._missed = False

    def next(self, holder: Holder) -> Cursor | None:
        """Where the claim that is made now begins; None: everywhere."""
        now = time.monotonic()
        if self._unanswered and self._began is not None:
            # A look that failed has found nothing, and took its time all the same: if it was its
            # own length that failed it, the next one would fail as well.
            self._looked(now - self._began)
        # Kinds that were left out until now lie behind the cursor.
        changed = (holder.only, holder.skip) != self._filter
        whole = changed or now >= self._whole_at
        self._filter = (holder.only, holder.skip)
        self._began = now if whole else None
        self._unanswered = True
        return None if whole else self._cursor

    def brought(self, claims: Sequence[Claim], wanted: int) -> None:
        """Learn what that claim has brought."""
        self._unanswered = False
        self._missed = self._began is None and len(claims) < wanted
        if self._began is not None:
            self._looked(time.monotonic() - self._began)
        self._cursor.pass_(claims)

    def _looked(self, took_s: float) -> None:
        # The shorter of two: one alone may have waited for a lock or a server that was frozen.
        gap = SHARE * min(took_s, self._took)
        self._took = took_s
        self._whole_at = time.monotonic() + min(max(gap, LEAST_GAP_S), MOST_GAP_S)

    @property
    def patience(self) -> float | None:
        """Seconds until a whole look is worth its cost; None when the last one missed nothing."""
        return max(self._whole_at - time.monotonic(), 0.0) if self._missed else None
