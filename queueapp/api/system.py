"""How well the database serves the queue: the readings of the page /system, for programs."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from queueapp.api.answers import SystemReport
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.describe import instant, json_answer
from queueapp.auth import Permission, permits
from queueapp.checkup import present_system
from queueapp.jobs.system.told import Finding, System

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
    return json_answer(described(present_system()))


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
