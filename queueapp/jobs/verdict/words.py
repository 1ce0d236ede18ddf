"""Numbers as they stand in the sentences of the verdict. Pure."""

from __future__ import annotations

from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.why.words import counted


def due(number: int, *, is_least: bool) -> str:
    """``1 job is due``, ``at least 1,001 jobs are due``, ``10,000+ jobs are due``."""
    least = "at least " if is_least and number <= COUNT_LIMIT else ""
    is_one = number == 1 and not is_least
    return f"{least}{_upto(number, COUNT_LIMIT)} {'job is' if is_one else 'jobs are'} due"


def the_oldest(*, is_cut: bool) -> str:
    """Whose wait is told; ``is_cut``: at lower priorities than were looked at some may be older."""
    return "the oldest looked at" if is_cut else "the oldest"


def due_of_it(number: int, *, is_least: bool) -> str:
    """``1 of its jobs is due``, ``at least 1,001 of its jobs are due``."""
    least = "at least " if is_least else ""
    is_one = number == 1 and not is_least
    return f"{least}{number:,} of its jobs {'is' if is_one else 'are'} due"


def _upto(number: int, limit: int) -> str:
    return f"{limit:,}+" if number > limit else f"{number:,}"


def name_of(worker: str) -> str:
    """A worker's name; that it is a worker goes without saying."""
    return worker.removeprefix("worker:")


def percent(part: int, of: int) -> str:
    """A share in words: ``71 %``; of what is not nothing ``<1 %`` at the least."""
    told = f"{100 * part / of:.0f} %" if of else "0 %"
    return "<1 %" if part and told == "0 %" else told


def share_of_workers(alive: int, expected: int) -> str:
    """``2 of 3 workers are alive``; without an expectation ``2 workers are alive``."""
    verb = "is" if alive == 1 else "are"
    if expected:
        return f"{alive} of {expected} workers {verb} alive"
    return f"{counted(alive, 'worker')} {verb} alive" if alive else "No worker is alive"


def per_minute(rate: float) -> str:
    """A rate: ``212/min``, ``0.4/min``."""
    return f"{rate:,.0f}/min" if rate >= 10 or rate == 0 else f"{rate:.1f}/min"
