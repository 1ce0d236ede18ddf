"""How well the database serves the queue: every reading, with what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, current_app

from queueapp.api.health import schema_head
from queueapp.auth import Permission, current_principal, permits
from queueapp.config import Settings
from queueapp.console.answers import answer
from queueapp.console.blueprint import bp
from queueapp.console.kept import kept
from queueapp.extensions import db
from queueapp.jobs.system.report import report
from queueapp.jobs.system.told import Asked, System, Tone

# Cells are evidence beside a sentence: a long one is cut.
CELL_LENGTH = 160


@bp.get("/system")
@permits(Permission.READ)
def system() -> Response:
    """Show every reading of the system."""
    # The texts of other people's queries may hold secrets.
    sees_queries = current_principal().may(Permission.ADMIN)
    found = kept().get(f"system {sees_queries}", lambda: read_system(sees_queries=sees_queries))
    return answer(
        "system",
        as_of=found.now,
        mark=repr(found.findings),
        context=lambda: _context(found, sees_queries=sees_queries),
    )


def read_system(*, sees_queries: bool) -> System:
    """Take every reading for this application."""
    settings: Settings = current_app.extensions["queue_settings"]
    return report(
        db.session(),
        Asked(revision=schema_head(), sees_queries=sees_queries, pooled=settings.pooler),
    )


def _context(found: System, *, sees_queries: bool) -> Mapping[str, Any]:
    return {
        "system": found,
        "counts": found.counts,
        "tones": tuple(Tone),
        "sees_queries": sees_queries,
        "cell_length": CELL_LENGTH,
    }
