"""Names in the environment that look like a setting, and which one was probably meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from queueapp.config import Settings
from queueapp.spelling import closest
from queueapp.worker import alone
from queueapp.worker.supervision import lifeline

_PREFIX = "QUEUE_"
# How the product's own processes are told things.
_OURS = (lifeline.VARIABLE, alone.VARIABLE)


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """A line for each name in the environment that looks like a setting and is none.

    None in a process whose supervisor has said so already.
    """
    if lifeline.VARIABLE in environ:
        return []
    known = [setting.metadata["env"] for setting in fields(Settings)]
    wrong = [name for name in environ if name.startswith(_PREFIX) and name not in (*known, *_OURS)]
    return [f"{name} is no setting{_meant(name, known)}" for name in sorted(wrong)]


def _meant(name: str, known: list[str]) -> str:
    # Without what all of them have in common.
    bare = [setting.removeprefix(_PREFIX) for setting in known if setting.startswith(_PREFIX)]
    close = closest(name.removeprefix(_PREFIX), bare)
    return f"; did you mean {_PREFIX}{close}?" if close else ""
