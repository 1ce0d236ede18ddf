"""The operations over many jobs, the newest plan first, and how far each has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Response, request
from sqlalchemy.orm import Session

from queueapp.auth import Permission, permits
from queueapp.console.answers import answer
from queueapp.console.blueprint import bp
from queueapp.console.criteria import read_place, unread_place
from queueapp.console.filters import count
from queueapp.console.operation_filter import filter_of
from queueapp.console.operation_story import WORDS
from queueapp.console.readings import bounded, pulse_of, tried
from queueapp.console.unread import problems_of
from queueapp.jobs import operations
from queueapp.jobs.operations import Cursor, Operation, State, Undone

ROWS = 25
# The style of each state: a tone of the style sheet, and a glyph.
LOOKS: dict[State, tuple[str, str]] = {
    "counting": ("", "scheduled"),
    "planned": ("careful", "queued"),
    "canary": ("", "running"),
    "applying": ("", "running"),
    "stopped": ("careful", "cancelled"),
    "done": ("good", "succeeded"),
}


@dataclass(frozen=True)
class Row:
    """One operation of the list. ``left``: in words, for the count may not be complete."""

    made: Operation
    verb: str
    filter: str
    left: str
    tone: str
    icon: str
    undone: Undone


@bp.get("/operations")
@permits(Permission.READ)
def operations_page() -> Response:
    """List the operations."""
    before = read_place(request.args, "before", Cursor.parse)
    lost = unread_place(request.args, {"before": before})
    problems = problems_of(request.args, places=("before",))
    pulse = pulse_of()
    return answer(
        "operations",
        as_of=pulse.now,
        mark=pulse.mark,
        context=lambda: {
            "lost": lost,
            "problems": problems,
            **_context(bounded(), before, pulse.now),
        },
        is_shared=True,
    )


def _context(session: Session, before: Cursor | None, now: datetime) -> Mapping[str, Any]:
    page = tried(session, operations.list_operations, now, before=before, limit=ROWS)
    found, older = page.value or ([], None)
    undone = tried(session, operations.undone_of, found).value or {}
    return {
        "page": page,
        "rows": [_row(made, undone.get(made.id, Undone())) for made in found],
        "older": older,
        "first_page": before is None,
    }


def _row(made: Operation, undone: Undone) -> Row:
    tone, icon = LOOKS[made.state]
    verb = WORDS[made.verb].button if made.undoes is None else f"Undo of {made.how['verb']}"
    asked = ", ".join(f"{name} {value}" for name, value in filter_of(made.asked))
    if made.undoes is not None:
        asked = f"what {made.undoes} did"
    left = f"{made.left:,}" if made.counts.whole else f"{count(made.left)}+"
    return Row(made, verb, asked or "every job", left, tone, icon, undone)
