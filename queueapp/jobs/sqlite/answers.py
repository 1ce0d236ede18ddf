"""Every replacement, made known by the import of its module; and the way to the answers."""

from __future__ import annotations

from queueapp.jobs.sqlite import (
    failures,
    handed_back,
    kinds,
    leases,
    metrics,
    minutes,
    operations,
    people,
    producers,
    purging,
    reads,
    roll,
    trail,
    upkeep,
    verdict,
    why,
    workers,
)
from queueapp.jobs.sqlite.replacements import answer, known

__all__ = [
    "answer",
    "failures",
    "handed_back",
    "kinds",
    "known",
    "leases",
    "metrics",
    "minutes",
    "operations",
    "people",
    "producers",
    "purging",
    "reads",
    "roll",
    "trail",
    "upkeep",
    "verdict",
    "why",
    "workers",
]
