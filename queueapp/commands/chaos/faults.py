"""What will go wrong, and when: drawn from the seed alone, so that a seed repeats its faults."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

MEAN_GAP_S = 2.0
# In a short run every kind of fault still gets its turn.
FEWEST = 8


class Kind(StrEnum):
    """A way to do harm, by the name it has in the report."""

    KILL = "worker killed"
    DEPLOY = "worker told to stop"
    FREEZE = "worker frozen past its leases"
    CUT = "connections cut"
    IMMEDIATE = "PostgreSQL restarted immediately"
    CRASH = "PostgreSQL killed"


_OFTEN = {
    Kind.KILL: 8, Kind.DEPLOY: 4, Kind.FREEZE: 4, Kind.CUT: 5, Kind.IMMEDIATE: 1, Kind.CRASH: 1,
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One fault, ``at`` seconds from the beginning. ``lasts``: how long a freeze is."""

    at: float
    kind: Kind
    worker: int
    lasts: float = 0.0


def schedule(seed: int, seconds: float, workers: int, lease: float) -> list[Fault]:
    """All faults of a run, in the order of time: each kind once, then by chance."""
    dice = random.Random(f"faults/{seed}")  # noqa: S311
    gap = min(MEAN_GAP_S, seconds / FEWEST)
    deck = list(Kind)
    dice.shuffle(deck)
    faults: list[Fault] = []
    at = gap * dice.uniform(0.3, 1.0)
    while at < seconds:
        kind = deck.pop() if deck else dice.choices(list(_OFTEN), list(_OFTEN.values()))[0]
        worker, lasts = dice.randrange(workers), dice.uniform(1.3, 2.0) * lease
        faults.append(Fault(at, kind, worker, lasts if kind is Kind.FREEZE else 0.0))
        at += gap * dice.uniform(0.5, 1.5)
    return faults
