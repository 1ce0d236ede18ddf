"""Two questions of a platform: does the process answer, and can it do its work?"""

from __future__ import annotations

from flask import Blueprint, Response

from queueapp import judgement
from queueapp.api import answers
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.describe import json_answer
from queueapp.application import this_app
from queueapp.auth import open_to_all
from queueapp.extensions import db
from queueapp.jobs import readiness
from queueapp.jobs.queries import bound_reads
from queueapp.schema import schema_head

bp = Blueprint("health", __name__)


@bp.get("/healthz")
@open_to_all
@contract(
    Part.QUEUE,
    {200: Answer("It can.", answers.Health)},
    asks_database=False,
    examples=(Example("Is it there?"),),
)
def healthz() -> Response:
    """Answer 200 while the process can, whatever the verdict; restarts mend no database."""
    app = this_app()
    look = judgement.present(app, wait_s=judgement.HEALTH_WAIT_S)
    return json_answer(
        {
            "status": "ok",
            "verdict": look.verdict.level,
            "rule": look.verdict.first.rule,
            "age_s": round(look.age_s, 3),
        }
    )


@bp.get("/readyz")
@open_to_all
@contract(
    Part.QUEUE,
    {200: Answer("It is ready.", answers.Ready)},
    examples=(Example("Can it work?"),),
)
def readyz() -> Response:
    """Answer 200 with a writable database of this release's schema, else 503 with the reason."""
    session = db.session()
    bound_reads(session)
    ready = readiness.check(session, schema_head())
    return json_answer(
        {
            "status": "ready",
            "schema": ready.revision,
            "ledger_days_ahead": ready.days_ahead,
            "warnings": ready.warnings,
        }
    )
