"""The list of jobs as files, with the filter of the page."""

from __future__ import annotations

from flask import Response, request
from sqlalchemy.orm import Session

from queueapp.api import describe
from queueapp.api.export import CSV, NDJSON, Form, pages_of, send
from queueapp.auth import Permission, permits
from queueapp.console.blueprint import bp
from queueapp.console.criteria import read_criteria
from queueapp.errors import BadRequest
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.redaction import for_reader


@bp.get("/jobs.csv")
@permits(Permission.READ)
def jobs_csv() -> Response:
    """The whole list behind the filter, for spreadsheets."""
    return _export(CSV)


@bp.get("/jobs.ndjson")
@permits(Permission.READ)
def jobs_ndjson() -> Response:
    """The whole list behind the filter, for programs: a job a line."""
    return _export(NDJSON)


def _export(form: Form) -> Response:
    with Session(db.engine) as session:
        now = queries.database_now(session)
    criteria = read_criteria(request.args, now)
    if criteria.problems:
        raise BadRequest(criteria.problems[0])
    pages = pages_of(db.engine, criteria.where, describe.LISTED, for_reader())
    return send(form, "jobs", describe.LISTED, pages)
