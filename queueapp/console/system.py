"""How well the database serves the queue: every reading, with what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from queueapp.auth import Permission, current_principal, permits
from queueapp.checkup import present_system
from queueapp.console.answers import answer, timer_life_s
from queueapp.console.blueprint import bp
from queueapp.jobs.system.told import System, Tone

# Cells are evidence beside a sentence: a long one is cut.
CELL_LENGTH = 160


@bp.get("/system")
@permits(Permission.READ)
def system() -> Response:
    """Show every reading of the system."""
    found = present_system(life_s=timer_life_s(15.0))
    return answer(
        "system",
        as_of=found.now,
        mark=repr(found.findings),
        context=lambda: _context(found),
    )


def _context(found: System) -> Mapping[str, Any]:
    return {
        "system": found,
        "counts": found.counts,
        "tones": tuple(Tone),
        "sees_queries": current_principal().may(Permission.ADMIN),
        "cell_length": CELL_LENGTH,
    }
