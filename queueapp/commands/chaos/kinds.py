"""The kinds of job that ``flask chaos`` runs: each notes its starts and ends outside the queue.

Only the processes of chaos import this (``QUEUE_HANDLERS``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from queueapp.commands import children
from queueapp.commands.chaos import outside
from queueapp.commands.chaos.stage import LEDGER, PARENT
from queueapp.handlers import JobContext, handler


@contextmanager
def _noted(context: JobContext) -> Iterator[None]:
    path = os.environ[LEDGER]
    outside.note(path, "start", context.id, context.attempt)
    try:
        yield
    finally:
        outside.note(path, "end", context.id, context.attempt)


@handler("chaos.tick")
def tick(context: JobContext) -> None:
    """Be done at once."""
    with _noted(context):
        return


@handler("chaos.work")
def work(context: JobContext, ms: float) -> float:
    """Work for some milliseconds, deaf to every request to stop."""
    with _noted(context):
        time.sleep(ms / 1000)
        return ms


@handler("chaos.slow")
def slow(context: JobContext, seconds: float) -> float:
    """Work for some seconds in steps, tell the progress, stop when asked to."""
    began = time.monotonic()
    with _noted(context):
        while (done := time.monotonic() - began) < seconds:
            context.progress(100 * done / seconds)
            context.wait(min(0.2, seconds))
        return seconds


@handler("chaos.flaky")
def flaky(context: JobContext, fail_first: int) -> int:
    """Fail the first attempts."""
    with _noted(context):
        if context.attempt <= fail_first:
            raise RuntimeError(f"attempt {context.attempt} is meant to fail")
        return context.attempt


if PARENT in os.environ:
    # A killed chaos leaves nothing.
    children.end_with(int(os.environ[PARENT]))
