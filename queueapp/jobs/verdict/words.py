"""Numbers as they stand in the sentences of the verdict. Pure."""

from __future__ import annotations

from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.why.words import counted


def due(number: int, limit: int = COUNT_LIMIT, *, of: str = "") -> str:
    """``1 job is due``, ``10,000+ jobs are due``; with ``of``: ``2 of its jobs are due``."""
    shown = f"{limit:,}+" if number > limit else f"{number:,}"
    if of:
        return f"{shown} of {of} jobs {'is' if number == 1 else 'are'} due"
    return f"{shown} job is due" if number == 1 else f"{shown} jobs are due"


def name_of(worker: str) -> str:
    """A worker's name; that it is a worker goes without saying."""
    return worker.removeprefix("worker:")


def percent(part: int, of: int) -> str:
    """A share in words: ``71 %``."""
    return f"{100 * part / of:.0f} %" if of else "0 %"


def share_of_workers(alive: int, expected: int) -> str:
    """``2 of 3 workers are alive``; without an expectation ``2 workers are alive``."""
    verb = "is" if alive == 1 else "are"
    if expected:
        return f"{alive} of {expected} workers {verb} alive"
    return f"{counted(alive, 'worker')} {verb} alive" if alive else "No worker is alive"


def per_minute(rate: float) -> str:
    """A rate: ``212/min``, ``0.4/min``."""
    return f"{rate:,.0f}/min" if rate >= 10 or rate == 0 else f"{rate:.1f}/min"
