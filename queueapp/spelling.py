"""Which of the names that there are was probably meant by one that is none."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Longer than any name that is meant.
_LONGEST = 200


def closest(name: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``name`` is most like; None where none is."""
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(name[:_LONGEST].lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[close[0]] if close else None
