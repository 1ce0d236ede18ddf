"""The frames of a stored traceback, the application's own told from those of libraries. Pure.

Workers elsewhere may have other paths and other languages: what cannot be read as frames stays
text, and what is a library is told by how such paths look everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FRAME = re.compile(
    r'^  File "(?P<path>[^"\n]*)", line (?P<line>\d+), in (?P<name>[^\n]*)'
    r"(?:\n(?P<source>    [^\n]*))?",
    re.MULTILINE,
)
_LIBRARY = re.compile(
    r"^<|[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*|Lib)[/\\]"
    r"|[/\\]queueapp[/\\](?:worker[/\\]|handlers[/\\]registry\.py$)"
)
MOST = 12


@dataclass(frozen=True)
class Frame:
    """One call: ``source`` is its line of code, empty where it was not to be had."""

    path: str
    line: int
    name: str
    source: str


def own_frames(trace: str) -> list[Frame]:
    """The application's own frames, the innermost first, ``MOST`` of them."""
    found = [
        Frame(m["path"], int(m["line"]), m["name"], (m["source"] or "").strip())
        for m in _FRAME.finditer(trace)
        if not _LIBRARY.search(m["path"])
    ]
    return found[::-1][:MOST]
