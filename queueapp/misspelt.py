"""Names that nothing has, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches

from queueapp.config import Settings
from queueapp.worker import alone
from queueapp.worker.supervision import lifeline

_PREFIX = "QUEUE_"
# How the product's own processes are told things.
_OURS = (lifeline.VARIABLE, alone.VARIABLE)
# Longer than any name that is meant.
_LONGEST = 200


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """A line for each name in the environment that looks like a setting and is none.

    None in a process whose supervisor has said so already.
    """
    if lifeline.VARIABLE in environ:
        return []
    known = [setting.metadata["env"] for setting in fields(Settings)]
    wrong = [name for name in environ if name.startswith(_PREFIX) and name not in (*known, *_OURS)]
    return [f"{name} is no setting{_meant(name, known)}" for name in sorted(wrong)]


def closest(name: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``name`` is most like; None where none is."""
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(name[:_LONGEST].lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[close[0]] if close else None


def _meant(name: str, known: list[str]) -> str:
    # Without what all of them have in common.
    bare = [setting.removeprefix(_PREFIX) for setting in known if setting.startswith(_PREFIX)]
    close = closest(name.removeprefix(_PREFIX), bare)
    return f"; did you mean {_PREFIX}{close}?" if close else ""
