"""Places in lists as addresses and programs carry them: two numbers with a dot between. Pure."""

from __future__ import annotations

import re

_WRITTEN = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)


def two_numbers(text: str) -> tuple[int, int]:
    """Read ``12.34``; raises ValueError for anything else, also for numbers beyond 18 digits."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError("expected two numbers with a dot between them")
    return int(found[1]), int(found[2])
