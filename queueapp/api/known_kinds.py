"""Which kinds the caller may have to do with, and which one was meant by one that is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from queueapp import handlers, judgement
from queueapp.application import this_app
from queueapp.auth import current_principal
from queueapp.errors import UnknownKind
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.queries.attempted import tried
from queueapp.spelling import closest

# So many are compared at most: a comparison takes microseconds.
_MOST_COMPARED = 500
_WHERE = "GET /api/kinds lists those that may be created"


def names() -> list[str]:
    """The caller's kinds, by name: names of kinds tell what a business does."""
    known = {handler.kind for handler in handlers.kinds()}
    within = current_principal().limits
    return sorted(filter(within.allow, known.union(handlers.current().external_kinds)))


def is_known(kind: str) -> bool | None:
    """Whether a handler here, a live worker or a job that is found has it; None: not known."""
    if handlers.find(kind) or kind in handlers.current().external_kinds:
        return True
    running = _run_by_workers()
    if running and kind in running:
        return True
    session = db.session()
    queries.bound_reads(session)
    found = tried(session, lambda open_: queries.list_jobs(open_, JobFilter(kind=kind), limit=1))
    if found.value is not None and found.value.rows:
        return True
    return None if running is None or found.value is None else False


def alike(kind: str) -> str | None:
    """The one of the caller's kinds that is spelt like it."""
    allowed = filter(current_principal().limits.allow, _run_by_workers() or ())
    return closest(kind, [*names(), *allowed])


def _run_by_workers() -> set[str] | None:
    """The kinds that live workers run; None where that could not be read."""
    facts = judgement.recent(this_app()).facts
    if facts is None or facts.signs is None:
        return None
    return {kind for worker in facts.signs.live(facts.now) for kind in worker.kinds}


def meant(kind: str, known: Sequence[str]) -> str:
    """What to say behind a kind that is none."""
    close = get_close_matches(kind[:100], known[:_MOST_COMPARED], n=1, cutoff=0.7)
    return f"; did you mean {close[0]}? {_WHERE}" if close else f"; {_WHERE}"


@contextmanager
def suggesting() -> Iterator[None]:
    """Let the refusal of an unknown kind name the way out."""
    try:
        yield
    except UnknownKind as error:
        [kind] = error.context["kinds"]
        said = meant(kind, names())
        [first, *others] = error.context["errors"]
        first = {**first, "detail": first["detail"] + said}
        raise UnknownKind(error.message + said, errors=[first, *others], kinds=[kind]) from None
