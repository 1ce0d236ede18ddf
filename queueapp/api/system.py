"""How well the database serves the queue: the readings of the page /system, for programs."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, current_app

from queueapp.api.answers import SystemReport
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.describe import instant, json_answer
from queueapp.api.health import schema_head
from queueapp.auth import Permission, current_principal, permits
from queueapp.config import Settings
from queueapp.extensions import db
from queueapp.jobs.system.report import report
from queueapp.jobs.system.told import Asked, Finding, System
from queueapp.kept import kept

bp = Blueprint("api_system", __name__, url_prefix="/api")


@bp.get("/system")
@permits(Permission.READ)
@contract(
    Part.QUEUE,
    {200: Answer("The readings, the worst first.", SystemReport)},
    more="Each is taken by itself: what fails is `unknown`, with the reason. The texts of queries"
    " are told to admins only.",
    examples=(Example("What slows the queue down?"),),
)
def system() -> Response:
    """Say how well the database serves the queue, and what to do."""
    return json_answer(described(shared_system()))


def shared_system() -> System:
    """Every reading as the present principal may see it, read once for all who look."""
    # The texts of other people's queries may hold secrets.
    sees_queries = current_principal().may(Permission.ADMIN)
    return kept().get(f"system {sees_queries}", lambda: read_system(sees_queries=sees_queries))


def read_system(*, sees_queries: bool) -> System:
    """Take every reading for this application."""
    settings: Settings = current_app.extensions["queue_settings"]
    return report(
        db.session(),
        Asked(revision=schema_head(), sees_queries=sees_queries, pooled=settings.pooler),
    )


def described(found: System) -> dict[str, Any]:
    """All readings as the API tells them."""
    return {"as_of": instant(found.now), "readings": [_reading(one) for one in found.findings]}


def _reading(finding: Finding) -> dict[str, Any]:
    said = finding.said
    names = [column.name for column in said.table.columns] if said.table else []
    rows = said.table.rows if said.table else ()
    return {
        "code": finding.code,
        "title": finding.title,
        "tone": said.tone.value,
        "sentence": said.sentence,
        "next_step": said.next_step,
        "command": said.command,
        "evidence": [dict(zip(names, row, strict=True)) for row in rows],
    }
