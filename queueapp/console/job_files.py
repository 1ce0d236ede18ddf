"""The list of jobs as files, with the filter of the page, or of jobs by their numbers."""

from __future__ import annotations

from flask import Response, request
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict

from queueapp.api import describe
from queueapp.api.export import CSV, NDJSON, Form, pages_of, pages_of_ids, send
from queueapp.auth import Permission, permits
from queueapp.console.actions import ids_of
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
    """``?whole=yes``: with payload, result and error; ``?id=``: these jobs alone."""
    args = MultiDict(request.args)
    names = describe.WHOLE if args.pop("whole", "") else describe.LISTED
    if ids := ids_of(args.poplist("id")):
        pages = pages_of_ids(db.engine, ids, names, for_reader())
        return send(form, "jobs", names, pages)
    with Session(db.engine) as session:
        now = queries.database_now(session)
    criteria = read_criteria(args, now)
    if criteria.problems:
        raise BadRequest(criteria.problems[0])
    return send(form, "jobs", names, pages_of(db.engine, criteria.where, names, for_reader()))
