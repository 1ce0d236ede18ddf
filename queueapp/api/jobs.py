"""The jobs as a resource: create one, look at it. Each view commits its own work."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

from flask import Blueprint, Response, current_app, url_for

from queueapp.api import answers, describe
from queueapp.api.contract import (
    ESTIMATED_WAIT,
    ETAG,
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    LOCATION,
    REPLAYED,
    Answer,
    Body,
    Example,
    Part,
    contract,
)
from queueapp.api.intake import intake
from queueapp.api.job_end import at_its_end
from queueapp.api.known_kinds import suggesting
from queueapp.api.lease_answers import WhyAnswer
from queueapp.api.marked import marked
from queueapp.api.reading import read_id, read_job, read_query
from queueapp.api.schemas import CreateQuery, EventsQuery, JobBody, WhyQuery
from queueapp.api.waiting import a_place_to_wait
from queueapp.at_once import at_once
from queueapp.auth import Permission, current_principal, permits
from queueapp.auth.limits import checked_within
from queueapp.auth.rates import charge
from queueapp.errors import (
    BeyondLimit,
    IdempotencyConflict,
    InvalidJob,
    JobNotFound,
    QueueFull,
    RateLimited,
    TooManyWaiters,
    UnknownKind,
)
from queueapp.extensions import db
from queueapp.handlers import enqueue_one_checked
from queueapp.jobs import queries
from queueapp.jobs.why import why as why_of
from queueapp.redaction import for_reader

bp = Blueprint("api_jobs", __name__, url_prefix="/api/jobs")


@bp.post("")
@permits(Permission.PRODUCE)
@contract(
    Part.PRODUCE,
    {
        201: Answer("A new job, whole.", answers.Job, (LOCATION, ESTIMATED_WAIT)),
        200: Answer(
            "The same request has been here before: its job, as it is now.",
            answers.Job,
            (LOCATION, REPLAYED, ESTIMATED_WAIT),
        ),
    },
    query=CreateQuery,
    body=Body(JobBody),
    takes=(IDEMPOTENCY_KEY,),
    refuses=(
        BeyondLimit,
        IdempotencyConflict,
        InvalidJob,
        UnknownKind,
        RateLimited,
        QueueFull,
        TooManyWaiters,
    ),
    more="Send a key whenever you might have to repeat a request: after a time-out or a 503 you"
    " cannot know whether the job exists, with a key you may simply ask again.",
    examples=(
        Example("The least.", json={"kind": "demo.echo", "payload": {"message": "hello"}}),
        Example(
            "With a key, so that it may be sent again; due in half a minute, ahead of others.",
            json={"kind": "demo.echo", "priority": 5, "delay": 30},
            headers=(("Idempotency-Key", "order-4711-paid"),),
        ),
        Example(
            "Wait for its end: the answer comes when the job is final, or with the job as it is"
            " after 2 seconds. To wait on, send the same again.",
            query="wait=2",
            json={"kind": "demo.echo", "payload": {"message": "hello"}},
            headers=(("Idempotency-Key", "hello-1"),),
        ),
    ),
)
def create() -> Response:
    """Create a job, or find the one that the same request has created before."""
    query, wanted, principal = read_query(CreateQuery), read_job(), current_principal()
    with suggesting():
        checked = checked_within(wanted, principal.limits)
    who: Any = {"producer": principal.producer, "actor": principal.actor, "via": "api"}
    # Taken before anything is written.
    with a_place_to_wait() if query.wait else nullcontext():
        charge(principal, 1)
        with at_once() as database:
            enqueue = partial(enqueue_one_checked, database, checked, **who, whole=True)
            made = intake().create(
                database, lambda ceiling: enqueue(ceiling=ceiling), keyed=checked.key is not None
            )
        job = describe.whole_job(made.job, for_reader())
        if query.wait:
            job = at_its_end(job, query.wait)
    place = {"Location": url_for(".show", job_id=made.id), **intake().headers()}
    if made.outcome == "replay":
        return describe.json_answer(job, 200, {**place, "Idempotent-Replayed": "true"})
    return describe.json_answer(job, 201, place)


@bp.get("/<job_id>")
@permits(Permission.READ_OWN)
@contract(
    Part.READ,
    {
        200: Answer("The job.", answers.Job, (ETAG,)),
        304: Answer("It is still the same.", headers=(ETAG,)),
    },
    takes=(IF_NONE_MATCH,),
    refuses=(JobNotFound,),
    more="To watch a job, send the `ETag` of the last answer as `If-None-Match`: a job that has not"
    " changed at all is answered 304, without a body.",
    examples=(Example("How is it?"),),
)
def show(job_id: str) -> Response:
    """Show one job whole."""
    job = queries.get_job(db.session(), read_id(job_id))
    refuse_others(Permission.READ, job.id, job.producer)
    return marked(describe.whole_job(job, for_reader()))


@bp.get("/<job_id>/events")
@permits(Permission.READ_OWN)
@contract(
    Part.READ,
    {200: Answer("A page of its history.", answers.EventsPage)},
    query=EventsQuery,
    refuses=(JobNotFound,),
    examples=(Example("What has happened to it?"),),
)
def events(job_id: str) -> Response:
    """List what has happened to a job, oldest first; its history outlives its row."""
    query, number, session = read_query(EventsQuery), read_id(job_id), db.session()
    lines = list(queries.events_of(session, number, after=query.after, limit=query.limit + 1))
    if not lines or not current_principal().may(Permission.READ):
        job = queries.get_job(session, number)
        refuse_others(Permission.READ, job.id, job.producer)
    shown = lines[: query.limit]
    more = str(shown[-1].id) if len(lines) > query.limit else None
    return describe.json_answer({"items": [describe.event(line) for line in shown], "next": more})


@bp.get("/<job_id>/why")
@permits(Permission.READ_OWN)
@contract(
    Part.READ,
    {200: Answer("The first rule that applies, with its evidence.", WhyAnswer)},
    query=WhyQuery,
    refuses=(JobNotFound,),
    more="Decide by `rule`; `sentence` and `next_step` are for people.",
    examples=(Example("Why does it not run?"),),
)
def why(job_id: str) -> Response:
    """Say why a job stands where it does: one sentence, with its evidence."""
    read_query(WhyQuery)
    number, session = read_id(job_id), db.session()
    queries.bound_reads(session)
    settings = current_app.extensions["queue_settings"]
    answer = why_of(session, number, job_timeout_s=settings.job_timeout, pooled=settings.pooler)
    refuse_others(Permission.READ, answer.job_id, answer.producer)
    whole = current_principal().may(Permission.READ)
    return describe.json_answer(describe.why(answer if whole else answer.without_others()))


def refuse_others(permission: Permission, job_id: int, producer: str) -> None:
    """Hide a job of somebody else from whoever may only see their own."""
    principal = current_principal()
    if not principal.may(permission) and principal.producer != producer:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
