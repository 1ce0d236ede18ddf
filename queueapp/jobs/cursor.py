"""Where the last claims ended, so that the next one begins there.

A claimed row leaves a dead entry at the head of the claim index, and under an old snapshot none of
them can be removed: a claim that began at the head would read a page more for every few jobs done.
A cursor misses what comes in behind it (late commits, back-dated and returned jobs), so now and
then a claim is made without one: see ``queueapp.worker.looks``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic_core import to_json

from queueapp.jobs.claim import Claim

# Places that are kept. Without its place a priority is read from its head, which is always right.
MOST = 100


class Cursor:
    """Per priority, the last place in claim order that one claimer has taken."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[datetime, datetime, int]] = {}

    def __bool__(self) -> bool:
        """Whether there is any place to begin at."""
        return bool(self._places)

    def pass_(self, claims: Iterable[Claim]) -> None:
        """Go on behind ``claims``, which come in claim order."""
        for claim in claims:
            self._places[claim.priority] = (claim.available_at, claim.created_at, claim.id)
        while len(self._places) > MOST:
            del self._places[next(iter(self._places))]

    def document(self) -> str:
        """The places as JSON, as the claim statement takes them."""
        places = [
            {"priority": priority, "available_at": due, "created_at": created, "id": last}
            for priority, (due, created, last) in self._places.items()
        ]
        return to_json(places).decode()


# Begin at the head of each priority.
NOWHERE = "[]"
