"""How many slots are lost to handlers that do not return, and who is to hear of it.

A thread cannot be interrupted: when its attempt was given up and it goes on all the same, its slot
does nothing more until it returns, if ever. The log says so once for each, and ``worker_seen`` as
soon as the number changes.
"""

from __future__ import annotations

from uuid import UUID

from queueapp.worker import story
from queueapp.worker.attempts import Attempt, Attempts
from queueapp.worker.terms import Terms


class LostSlots:
    """Looked at by housekeeping's thread."""

    def __init__(self, terms: Terms, attempts: Attempts) -> None:
        self._terms = terms
        self._attempts = attempts
        self._known: dict[UUID, Attempt] = {}

    @property
    def count(self) -> int:
        """How many there were at the last look."""
        return len(self._known)

    def look(self) -> bool:
        """Look again; whether the number has changed."""
        known = self._known
        self._known = {attempt.claim.token: attempt for attempt in self._attempts.lost()}
        for token in self._known.keys() - known.keys():
            story.slot_lost(self._known[token], self.count, self._terms.concurrency)
        for token in known.keys() - self._known.keys():
            story.slot_found(known[token], self.count, self._terms.concurrency)
        return len(known) != self.count
