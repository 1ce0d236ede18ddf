"""Outcomes that the database has yet to take, in the order in which they came."""

from __future__ import annotations

from uuid import UUID

from queueapp.jobs.transitions import Outcome

# One statement carries about so much of results and errors; the others follow in the next.
MOST_BYTES = 8 * 1024 * 1024


class Unwritten:
    """The pump's own: no other thread touches it."""

    def __init__(self) -> None:
        self._outcomes: dict[UUID, Outcome] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._outcomes)

    def __contains__(self, token: UUID) -> bool:
        """Whether the end of this attempt is known."""
        return token in self._outcomes

    def add(self, outcome: Outcome) -> None:
        """The first word about an attempt counts: what follows comes from a thread given up."""
        self._outcomes.setdefault(outcome.token, outcome)

    def put(self, outcome: Outcome) -> None:
        """Whatever was known, this is how the attempt ends."""
        self._outcomes[outcome.token] = outcome

    def pop(self, token: UUID) -> Outcome:
        """It is written, or never will be."""
        return self._outcomes.pop(token)

    def postpone(self, token: UUID) -> None:
        """Its row is locked: the others go first."""
        self._outcomes[token] = self._outcomes.pop(token)

    def batch(self) -> list[Outcome]:
        """Those that come first, as many as one statement should carry."""
        batch: list[Outcome] = []
        size = 0
        for outcome in self._outcomes.values():
            size += outcome.size
            if batch and size > MOST_BYTES:
                break
            batch.append(outcome)
        return batch
