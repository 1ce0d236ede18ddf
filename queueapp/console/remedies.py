"""The buttons of the banner: what its rule calls for, where that is one verb over what it names.

Each asks first, as everywhere. What needs a look at something else before has a link, not a button.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flask import url_for
from sqlalchemy import Row

from queueapp.console.filters import plural
from queueapp.jobs.verdict import Finding


@dataclass(frozen=True)
class Remedy:
    """One button: the verb, what stands on it behind its icon, and the page that asks."""

    verb: str
    label: str
    address: str


def remedies(first: Finding, longest: Sequence[Row[Any]]) -> list[Remedy]:
    """What helps against the first finding. ``longest``: the running jobs claimed first."""
    if first.rule not in ("stalled", "wedged"):
        return []
    # The runs that keep all others waiting: those of the kind that the banner names.
    kind = first.evidence["longest_kind"]
    stuck = [row.id for row in longest if row.kind == kind and row.cancel_requested_at is None]
    if not stuck:
        return []
    address = url_for("console.ask_many", verb="cancel", id=stuck)
    return [Remedy("cancel", f"Cancel {plural(len(stuck), 'run')} of {kind}", address)]
