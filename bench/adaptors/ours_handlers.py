"""The handler that ``flask work`` runs; named in QUEUE_HANDLERS."""

from __future__ import annotations

from bench.adaptors.recorder import rec
from queueapp import JobContext, handler


@handler("bench.noop")
def noop(ctx: JobContext, n: int, pad: str) -> None:
    """Do nothing but be counted."""
    rec.hit(n)
