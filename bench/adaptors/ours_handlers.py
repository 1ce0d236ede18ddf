"""The handler that ``flask work`` runs; named in QUEUE_HANDLERS."""

from __future__ import annotations

import os
import time

from bench.adaptors.recorder import rec
from queueapp import JobContext, handler

WAIT_S = float(os.environ.get("BENCH_WAIT_S", "0"))


@handler("bench.noop")
def noop(ctx: JobContext, n: int, pad: str) -> None:
    """Do nothing but be counted, or wait a little as well."""
    rec.hit(n)
    if WAIT_S:
        time.sleep(WAIT_S)
