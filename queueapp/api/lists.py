"""The jobs as lists: page by page, newest first."""

from __future__ import annotations

from flask import Blueprint, Response

from queueapp.api import answers, describe
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.list_schemas import JobsFilter, JobsQuery
from queueapp.api.reading import read_query
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import NotAllowed
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import JobFilter

bp = Blueprint("api_lists", __name__, url_prefix="/api")


@bp.get("/jobs")
@permits(Permission.READ_OWN)
@contract(
    Part.READ,
    {200: Answer("A page of jobs.", answers.JobsPage)},
    query=JobsQuery,
    more="Without payload, result and error_message. A job whose transaction commits late appears"
    " at its place by number: a list that has to be complete is read again from the top.",
    examples=(
        Example("Those that failed or are held.", query="status=failed,held&limit=100"),
        Example(
            "Those that failed in the night.",
            query="status=failed&finished_from=2030-01-30T22:00:00Z"
            "&finished_to=2030-01-31T06:00:00Z",
        ),
    ),
)
def jobs() -> Response:
    """List jobs, newest first."""
    query = read_query(JobsQuery)
    where, session = allowed(query), db.session()
    queries.bound_reads(session)
    page = queries.list_jobs(session, where, before=query.before, limit=query.limit)
    # A cursor is text, so that what it is made of may change.
    older = None if page.older is None else str(page.older)
    items = [describe.listed_job(job) for job in page.rows]
    return describe.json_answer({"items": items, "next": older, "cut": page.cut})


def allowed(asked: JobsFilter) -> JobFilter:
    """The filter that was asked for: over everybody's jobs, or the caller's own."""
    principal = current_principal()
    if principal.may(Permission.READ):
        return asked.where(asked.producer)
    if asked.producer not in (None, principal.producer):
        raise NotAllowed(f"{principal.actor} may list its own jobs only, not those of others")
    return asked.where(principal.producer)
