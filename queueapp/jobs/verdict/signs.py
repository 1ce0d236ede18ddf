"""Who has signed as a worker, and who of them is there, for all that is known. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queueapp.jobs import deploy
from queueapp.jobs.presence import Worker


@dataclass(frozen=True)
class Signs:
    """Who has signed as a worker since yesterday; ``all_known``: nobody who lives is missing.

    ``unconnected``: who signed a moment ago and has no connection, where that can be told;
    ``renewing``: who, elsewhere, signs no more and renews its leases. ``overtaken``: who has lost
    all its leases to a sweeper since it signed, so that it hangs, whatever it signed.
    """

    workers: Sequence[Worker] = ()
    all_known: bool = True
    unconnected: frozenset[str] = frozenset()
    renewing: frozenset[str] = frozenset()
    overtaken: frozenset[str] = frozenset()

    def live(self, now: datetime) -> list[Worker]:
        """Who lives, a worker elsewhere with several sets of kinds once for each."""
        gone = self.unconnected | self.overtaken
        here = [one for one in self.workers if one.holder not in gone]
        return [one for one in here if one.is_live(now) or one.name in self.renewing]

    def is_cut_off(self, worker: Worker) -> bool:
        """Whether it signed of late, and has no connection to the database any more."""
        return worker.holder in self.unconnected

    def alive(self, now: datetime) -> int:
        """How many workers can run jobs."""
        return len({worker.holder for worker in self.live(now) if worker.slots})

    def slots(self, now: datetime) -> int:
        """How many jobs they can run at once."""
        return sum(worker.slots for worker in self.live(now))

    def working_since(self, now: datetime, gap_s: float) -> datetime | None:
        """Since when there has been somebody who could work, but for ``gap_s`` at a time.

        None: there is nobody now. Workers that die and come back again and again are one such time.
        """
        if not self.alive(now):
            return None
        began, gap = now, timedelta(seconds=gap_s)
        able = [(one.ended_by(now), one.first_seen_at) for one in self.workers if one.slots]
        for end, first_at in sorted(able, key=lambda span: span[0], reverse=True):
            if first_at and end >= began - gap:
                began = min(began, first_at)
        return began

    @property
    def deployed_at(self) -> datetime | None:
        """When the newest release was first seen, if another was seen before it."""
        found = deploy.latest((one.told.get("release"), one.first_seen_at) for one in self.workers)
        return found.at if found else None
