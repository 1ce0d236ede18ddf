"""The attempts that this process holds, shared by its threads: waiting, running, or given up.

A slot is a handler thread. An attempt takes one from its claim until its thread returns, even when
its lease has been given up meanwhile: a thread that does not return then is a slot lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Container
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from queueapp.handlers import JobContext
from queueapp.jobs.claim import Claim
from queueapp.jobs.transitions import Begun, Held

# A handler whose attempt was given up is asked to stop at once, and has this long to do so before
# its slot counts as lost.
LOST_AFTER_S = 3.0


@dataclass(eq=False)
class Attempt:
    """One claim in this process. Times are this process's monotonic clock.

    ``claimed`` is when it was asked for and ``lease_ends`` is reckoned from when the lease was: by
    the database's clock both are later, however long the answer took to reach us.
    """

    claim: Claim
    context: JobContext
    claimed: float
    lease_ends: float
    began: float | None = None
    start_known: bool = False
    given_up_at: float | None = None
    came_too_late: bool = False

    @property
    def given_up(self) -> bool:
        """Whether this lease is no longer held, whatever its thread still does."""
        return self.given_up_at is not None

    @property
    def ran_s(self) -> float:
        """How long its handler has been at work."""
        return 0.0 if self.began is None else time.monotonic() - self.began

    @property
    def lease(self) -> Held:
        """The lease's identity."""
        return Held(self.claim.id, self.claim.token)


class Attempts:
    """The registry. Every method is atomic and short: it is on the hot path."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[UUID, Attempt] = {}

    def __len__(self) -> int:
        """How many slots are spoken for."""
        return len(self._held)

    def add(self, attempts: list[Attempt]) -> None:
        """Take over new claims."""
        with self._lock:
            self._held.update({attempt.claim.token: attempt for attempt in attempts})

    def begin(self, attempt: Attempt) -> bool:
        """Mark the start of the handler; False when the claim has been withdrawn, or is now.

        After a freeze of this process it may have waited for longer than its lease: another worker
        may be running the job by now.
        """
        now = time.monotonic()
        with self._lock:
            if attempt.given_up:
                # Nobody runs it, so its slot is free.
                self._held.pop(attempt.claim.token, None)
                return False
            if attempt.claim.token not in self._held:
                return False
            if now >= attempt.lease_ends:
                attempt.came_too_late = True
                attempt.given_up_at = now
                del self._held[attempt.claim.token]
                return False
            attempt.began = now
            return True

    def end(self, attempt: Attempt) -> None:
        """The handler's thread has come back: its slot is free."""
        with self._lock:
            self._held.pop(attempt.claim.token, None)

    def withdraw(
        self, *, prefetched_for: float | None = None, kinds: Container[str] = ()
    ) -> list[Attempt]:
        """Take back claims that have not begun: all, or those prefetched so many seconds ago.

        Those of ``kinds`` go at once. What was given up is not ours to hand back.
        """
        now = time.monotonic()
        with self._lock:
            waiting = [
                attempt
                for attempt in self._held.values()
                if attempt.began is None
                and not attempt.given_up
                and (
                    prefetched_for is None
                    or attempt.claim.kind in kinds
                    or (not attempt.claim.started and now - attempt.claimed >= prefetched_for)
                )
            ]
            for attempt in waiting:
                attempt.given_up_at = now
                del self._held[attempt.claim.token]
        return waiting

    def give_up(self, token: UUID) -> Attempt | None:
        """Stop renewing this lease; its thread keeps the slot. None: not held any more."""
        with self._lock:
            attempt = self._held.get(token)
            if attempt is None or attempt.given_up:
                return None
            attempt.given_up_at = time.monotonic()
            return attempt

    def leases(self) -> list[Attempt]:
        """The attempts whose leases are to be renewed."""
        with self._lock:
            return [attempt for attempt in self._held.values() if not attempt.given_up]

    def unreturned(self) -> list[UUID]:
        """The tokens that were given up while their threads have not come back."""
        with self._lock:
            return [token for token, attempt in self._held.items() if attempt.given_up]

    def lost(self) -> list[Attempt]:
        """Those whose threads had time to come back: each is a slot lost, until it does."""
        now = time.monotonic()
        with self._lock:
            return [
                attempt
                for attempt in self._held.values()
                if attempt.given_up_at is not None and now - attempt.given_up_at >= LOST_AFTER_S
            ]

    def running(self) -> int:
        """How many handlers are at work."""
        with self._lock:
            return sum(attempt.began is not None for attempt in self._held.values())

    def unreported_starts(self, older_than: float) -> list[Begun]:
        """Prefetched claims at work for ``older_than`` seconds whose start the database lacks."""
        now = time.monotonic()
        with self._lock:
            return [
                Begun(attempt.claim.id, attempt.claim.token, now - attempt.began)
                for attempt in self._held.values()
                if attempt.began is not None
                and not attempt.start_known
                and not attempt.given_up
                and now - attempt.began >= older_than
            ]

    def starts_known(self, tokens: Collection[UUID]) -> None:
        """The database has these starts now."""
        with self._lock:
            for token in tokens:
                if token in self._held:
                    self._held[token].start_known = True

    def await_the_pump(self) -> bool:
        """Whether there are prefetched claims that wait, or whose start is not written yet."""
        with self._lock:
            return any(not attempt.start_known for attempt in self._held.values())

    def interrupt(self, reason: Any) -> None:
        """Ask every handler at work to stop."""
        for attempt in self.leases():
            attempt.context.interrupt(reason)
