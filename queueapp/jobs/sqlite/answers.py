"""Every replacement, made known by the import of its module; and the way to the answers."""

from __future__ import annotations

from queueapp.jobs.sqlite import (
    failures,
    kinds,
    leases,
    metrics,
    minutes,
    operations,
    people,
    producers,
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
    "kinds",
    "known",
    "leases",
    "metrics",
    "minutes",
    "operations",
    "people",
    "producers",
    "reads",
    "roll",
    "trail",
    "upkeep",
    "verdict",
    "why",
    "workers",
]
