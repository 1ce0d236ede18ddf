"""The buttons of the banner: what its rule calls for, where it can be said in one verb.

Each asks first, as everywhere. What needs a look at something else before has a link, not a button.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from flask import current_app, request, url_for
from sqlalchemy import Row

from queueapp import judgement
from queueapp.console.filters import plural
from queueapp.jobs.verdict import Finding


@dataclass(frozen=True)
class Remedy:
    """One button: the verb, what stands on it behind its icon, and the page that asks."""

    verb: str
    icon: str
    label: str
    address: str


def remedies(first: Finding, longest: Sequence[Row[Any]]) -> list[Remedy]:
    """What helps against the first finding. ``longest``: the running jobs claimed first."""
    return [*_of_runs(first, longest), *_of_switches(first)]


def _of_runs(first: Finding, longest: Sequence[Row[Any]]) -> Iterator[Remedy]:
    """Cancel the runs that keep all others waiting: those of the kind that the banner names."""
    if first.rule not in ("stalled", "wedged"):
        return
    kind = first.evidence["longest_kind"]
    stuck = [row.id for row in longest if row.kind == kind and row.cancel_requested_at is None]
    if stuck:
        address = url_for("console.ask_many", verb="cancel", id=stuck)
        yield Remedy("cancel", "cancel", f"Cancel {plural(len(stuck), 'run')} of {kind}", address)


def _of_switches(first: Finding) -> Iterator[Remedy]:
    """Lift what somebody has stopped, or stop what does no good, where this console can."""
    if first.rule == "paused" and first.evidence["paused_at"]:
        yield from _asked("resume", "running", "Resume the queue", "/queue/resume")
    elif first.rule == "paused":
        for kind in first.evidence["held_kinds"][:1]:
            yield from _asked("unhold", "running", f"Unhold {kind}", _of_kind(kind, "unhold"))
    elif first.rule == "retry_storm" and (kind := first.evidence["kind"]):
        yield from _asked("hold", "held", f"Hold {kind}", _of_kind(kind, "hold"))


def _of_kind(kind: str, verb: str) -> str:
    return f"/kinds/{quote(kind, safe='')}/{verb}"


def _asked(verb: str, icon: str, label: str, path: str) -> Iterator[Remedy]:
    app: Any = current_app._get_current_object()  # type: ignore[attr-defined]
    if page := judgement.page_of(app, [path]):
        yield Remedy(verb, icon, label, request.script_root + page)
