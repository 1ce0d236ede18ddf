"""Which kinds the caller may have to do with, and which one was meant by one that is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from queueapp import handlers
from queueapp.auth import current_principal
from queueapp.errors import UnknownKind

# So many are compared at most: a comparison takes microseconds.
_MOST_COMPARED = 500
_WHERE = "GET /api/kinds lists those that may be created"


def names() -> list[str]:
    """The caller's kinds, by name: names of kinds tell what a business does."""
    known = {handler.kind for handler in handlers.kinds()}
    within = current_principal().limits
    return sorted(filter(within.allow, known.union(handlers.current().external_kinds)))


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
