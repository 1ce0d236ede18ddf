"""Outcomes that the database has yet to take, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from pydantic_core import PydanticSerializationError
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from queueapp.jobs import transitions
from queueapp.jobs.transitions import Outcome
from queueapp.worker.outcomes import unstorable

# One statement carries about so much of results and errors; the others follow in the next.
MOST_BYTES = 8 * 1024 * 1024
# An outcome that the database or the encoder refuses fails the statement of all.
UNSTORABLE = (DataError, IntegrityError, PydanticSerializationError)


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

    def settle_singly(
        self, connection: Connection, outcomes: Iterable[Outcome], actor: str
    ) -> dict[UUID, str]:
        """Settle one by one; in place of what cannot be stored comes an end that says so."""
        accepted: dict[UUID, str] = {}
        for outcome in outcomes:
            try:
                accepted |= transitions.settle(connection, [outcome], actor=actor)
            except UNSTORABLE as error:
                self.put(unstorable(outcome, error))
        return accepted

    def put(self, outcome: Outcome) -> None:
        """Whatever was known, this is how the attempt ends."""
        self._outcomes[outcome.token] = outcome

    def pop(self, token: UUID) -> Outcome:
        """It is written, or never will be."""
        return self._outcomes.pop(token)

    def drop(self, token: UUID) -> None:
        """Somebody else has written how it ended."""
        self._outcomes.pop(token, None)

    def take_successes(self, least: int) -> list[Outcome]:
        """Take out all successes of the next batch; none if they are fewer than ``least``."""
        taken = [outcome for outcome in self.batch() if outcome.verb == "succeed"]
        if len(taken) < least:
            return []
        for outcome in taken:
            del self._outcomes[outcome.token]
        return taken

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
