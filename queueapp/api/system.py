"""How well the database serves the queue: the readings of the page /system, for programs."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Blueprint, Flask, Response, current_app
from sqlalchemy.orm import Session

from queueapp import judgement
from queueapp.api.answers import SystemReport
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.describe import instant, json_answer
from queueapp.api.health import schema_head
from queueapp.auth import Permission, current_principal, permits
from queueapp.config import Settings
from queueapp.errors import DatabaseUnavailable
from queueapp.extensions import db
from queueapp.jobs.system.report import report
from queueapp.jobs.system.told import Asked, Finding, System
from queueapp.shared import Shared, Snapshot, life_s

bp = Blueprint("api_system", __name__, url_prefix="/api")


def init_app(app: Flask) -> None:
    """Let ``app`` share the readings: once with the texts of others' queries, once without."""
    app.extensions["queue_system"] = {
        sees_queries: Shared(
            partial(read_system, app, sees_queries=sees_queries),
            life_s=life_s(app),
            name_failure=judgement.name_failure,
        )
        for sees_queries in (False, True)
    }


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
    """Every reading as the present principal may see it, read once for all who look.

    Raises DatabaseUnavailable when there is none that says anything of now.
    """
    # The texts of other people's queries may hold secrets.
    shared = current_app.extensions["queue_system"][current_principal().may(Permission.ADMIN)]
    snapshot: Snapshot[System] = shared.get()
    if snapshot.present is None:
        raise DatabaseUnavailable(snapshot.failure or "it has not been read yet", retry_after=5)
    return snapshot.present


def read_system(app: Flask, *, sees_queries: bool) -> System:
    """Take every reading for ``app`` now. Raises what the database raises."""
    settings: Settings = app.extensions["queue_settings"]
    with app.app_context(), Session(db.engine) as session:
        return report(
            session,
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
