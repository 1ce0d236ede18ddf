"""The jobs as lists: page by page, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from flask import Blueprint, Response

from queueapp.api import answers, describe
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.list_schemas import MOST_WITH_BODIES, JobsFilter, JobsQuery
from queueapp.api.reading import read_query
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import BadRequest, InvalidRequest, NotAllowed
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.failure import printable
from queueapp.jobs.queries import JobFilter
from queueapp.redaction import Redaction, for_reader

bp = Blueprint("api_lists", __name__, url_prefix="/api")


@bp.get("/jobs")
@permits(Permission.READ_OWN)
@contract(
    Part.READ,
    {200: Answer("A page of jobs.", answers.JobsPage)},
    query=JobsQuery,
    refuses=(InvalidRequest,),
    more="Without payload, result and error_message, unless `fields` asks for them. A job whose"
    " transaction commits late appears at its place by number: a list that has to be complete is"
    " read again from the top.",
    examples=(
        Example("Those that failed or are held.", query="status=failed,held&limit=100"),
        Example(
            "Those that failed in the night.",
            query="status=failed&finished_from=2030-01-30T22:00:00Z"
            "&finished_to=2030-01-31T06:00:00Z",
        ),
        Example(
            "How many are due, and what are the newest about?",
            query="due=true&count=true&fields=id,kind,payload&limit=10",
        ),
    ),
)
def jobs() -> Response:
    """List jobs, newest first."""
    query = read_query(JobsQuery)
    if query.before is not None and query.after is not None:
        raise BadRequest("give either before or after")
    names = fields_of(query)
    _refuse_many_bodies(names, query.limit)
    where, session, hidden = allowed(query), db.session(), for_reader()
    queries.bound_reads(session)
    page = queries.list_jobs(
        session,
        where,
        before=query.before,
        after=query.after,
        limit=query.limit,
        columns=describe.columns_of(names),
    )
    answer: dict[str, Any] = {
        "items": [describe.listed_job(job, names, hidden) for job in page.rows],
        "next": _cursor(page.older),
        "previous": _cursor(page.newer),
        "cut": page.cut,
    }
    if query.count:
        answer |= asdict(queries.count_jobs(session, where))
    return describe.json_answer(answer)


def fields_of(asked: JobsFilter) -> tuple[str, ...]:
    """The fields to show. Raises InvalidRequest for one that no job has."""
    for name in asked.fields:
        if name not in describe.WHOLE:
            known = f"a job has no field '{printable(name[:100])}', but {', '.join(describe.WHOLE)}"
            raise _invalid("fields", known)
    return tuple(dict.fromkeys(asked.fields)) or describe.LISTED


def _refuse_many_bodies(names: Sequence[str], limit: int) -> None:
    bodies = [name for name in describe.BODIES if name in names]
    if bodies and limit > MOST_WITH_BODIES:
        raise _invalid("limit", f"must be at most {MOST_WITH_BODIES} with {' and '.join(bodies)}")


def _invalid(parameter: str, detail: str) -> InvalidRequest:
    told = [{"parameter": parameter, "detail": detail}]
    return InvalidRequest(f"{parameter}: {detail}", errors=told)


def _cursor(place: int | None) -> str | None:
    """A cursor is text, so that what it is made of may change."""
    return None if place is None else str(place)


def allowed(asked: JobsFilter) -> JobFilter:
    """The filter that was asked for: over everybody's jobs, or the caller's own.

    Raises NotAllowed, also for a field of the payload that is hidden from the caller.
    """
    principal = current_principal()
    if principal.may(Permission.READ):
        where = asked.where(asked.producer)
        refuse_hidden(where, for_reader(), f"{principal.actor} does not see it")
        return where
    if asked.producer not in (None, principal.producer):
        raise NotAllowed(f"{principal.actor} may list its own jobs only, not those of others")
    return asked.where(principal.producer)


def refuse_hidden(where: JobFilter, hidden: Redaction, why: str) -> None:
    """Raise NotAllowed for a filter on what is hidden: its answer would tell the value."""
    if path := hidden.covered(where.kind, (field.path for field in where.payload)):
        raise NotAllowed(f"payload: '{printable(path)}' cannot be asked for: {why}")
