"""One job in the hands of a person: cancel, retry, hold, reschedule, release, purge and so on."""

from __future__ import annotations

from typing import Any

from flask import Response, url_for

from queueapp import handlers
from queueapp.api import answers, describe
from queueapp.api.acting_schemas import HoldBody, PurgeBody, ReleaseBody, RescheduleBody
from queueapp.api.contract import (
    ESTIMATED_WAIT,
    LOCATION,
    REPLAYED,
    Answer,
    Body,
    Example,
    Part,
    contract,
)
from queueapp.api.intake import intake
from queueapp.api.invalid import invalid_at
from queueapp.api.jobs import bp, refuse_others
from queueapp.api.reading import read_id, read_model, read_reason
from queueapp.api.schemas import ReasonBody
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import IllegalMove, InvalidJob, JobBusy, JobNotFound, QueueFull, UnknownKind
from queueapp.extensions import db
from queueapp.jobs import queries, transitions
from queueapp.jobs.transitions import By, Moved, PersonVerb
from queueapp.redaction import for_reader

_REFUSES = (JobNotFound, IllegalMove, JobBusy)
_NOW = Answer("The job as it is now.", answers.Job)
_NOW_OR_THERE = Answer(
    "The job as it is now. `Idempotent-Replayed` says that it stood there already, and nothing was"
    " changed.",
    answers.Job,
    (REPLAYED,),
)


@bp.post("/<job_id>/cancel")
@permits(Permission.CANCEL)
@contract(
    Part.ACT,
    {200: _NOW},
    body=Body(ReasonBody, required=False),
    refuses=_REFUSES,
    more="A running job is asked to stop: it then ends as cancelled, or as succeeded if the"
    " handler was faster.",
    examples=(Example("Without a reason."),),
)
def cancel(job_id: str) -> Response:
    """Cancel a waiting job; ask the handler of a running one to stop."""
    number, reason, session = read_id(job_id), read_reason(), db.session()
    # Whoever may act on all jobs pays for no look at whose it is.
    if not current_principal().may(Permission.ACT):
        refuse_others(Permission.ACT, number, queries.get_job(session, number).producer)
    return _moved(transitions.one(transitions.cancel, session, number, **_by(reason)))


@bp.post("/<job_id>/retry")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _NOW},
    body=Body(ReasonBody, required=False),
    refuses=_REFUSES,
    examples=(Example("With a reason.", json={"reason": "the provider is back"}),),
)
def retry(job_id: str) -> Response:
    """Let a failed or cancelled job run again, with all its attempts."""
    number, reason = read_id(job_id), read_reason()
    return _moved(transitions.one(transitions.requeue, db.session(), number, **_by(reason)))


@bp.post("/<job_id>/hold")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _NOW},
    body=Body(HoldBody),
    refuses=_REFUSES,
    more="It keeps its place in the line.",
    examples=(Example("With a reason.", json={"reason": "wait for the new address"}),),
)
def hold(job_id: str) -> Response:
    """Park a queued job until somebody lifts the hold."""
    number, reason = read_id(job_id), read_model(HoldBody).reason
    return _moved(transitions.one(transitions.hold, db.session(), number, **_by(reason)))


@bp.post("/<job_id>/unhold")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _NOW},
    body=Body(ReasonBody, required=False),
    refuses=_REFUSES,
    more="A job held for its kind is refused: it comes back when the hold on the kind is lifted.",
    examples=(Example("Without a reason."),),
)
def unhold(job_id: str) -> Response:
    """Let a job that was held by itself go on."""
    number, how = read_id(job_id), {**_by(read_reason()), "held_for": "job"}
    return _moved(transitions.one(transitions.unhold, db.session(), number, **how))


@bp.post("/<job_id>/reschedule")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _NOW_OR_THERE},
    body=Body(RescheduleBody),
    refuses=_REFUSES,
    more="A held job stays held. A `delay` that leads to within two seconds of the present due time"
    " changes nothing, so that a double click moves it once.",
    examples=(
        Example(
            "Not before a moment.",
            json={"available_at": "2030-01-31T08:00:00Z", "reason": "not before the sale"},
        ),
        Example("In ten minutes, ahead of others.", json={"delay": 600, "priority": 5}),
    ),
)
def reschedule(job_id: str) -> Response:
    """Change when a waiting job is due, or its priority."""
    number, body = read_id(job_id), read_model(RescheduleBody)
    how = {**place_of(body), "only_if_changed": True, **_by(body.reason)}
    return _in_line(transitions.reschedule, number, how)


@bp.post("/<job_id>/run-now")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _NOW_OR_THERE},
    body=Body(ReasonBody, required=False),
    refuses=_REFUSES,
    more="Its priority stays: jobs of a higher one, and those that have been due for longer, are"
    " ahead of it.",
    examples=(Example("Without a reason."),),
)
def run_now(job_id: str) -> Response:
    """Make a queued job due that waits for its time."""
    return _in_line(transitions.run_now, read_id(job_id), {**_by(read_reason())})


@bp.post("/<job_id>/release")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _NOW},
    body=Body(ReleaseBody),
    refuses=_REFUSES,
    more="The attempt counts; with none left the job has failed. Its holder may still be at work:"
    " then the job runs twice, and what the first one says is refused. Send the claim that you saw:"
    " a job that has another holder by now is refused with `illegal_move`.",
    examples=(
        Example(
            "The claim that the job showed.",
            json={"claimed_at": "2030-01-31T08:00:00.000000Z", "reason": "its machine burnt down"},
        ),
    ),
)
def release(job_id: str) -> Response:
    """Take a running job from the holder that you saw."""
    number, body = read_id(job_id), read_model(ReleaseBody)
    by = _by(body.reason)
    moved = transitions.release_claim(db.session(), number, claimed_at=body.claimed_at, **by)
    return _moved(moved)


@bp.post("/<job_id>/clone")
@permits(Permission.ADMIN)
@contract(
    Part.ACT,
    {201: Answer("The new job, whole.", answers.Job, (LOCATION, ESTIMATED_WAIT))},
    body=Body(ReasonBody, required=False),
    refuses=(JobNotFound, JobBusy, InvalidJob, UnknownKind, QueueFull),
    more="It has the kind, payload, priority, limits and producer of the old one, is due now, and"
    " has no idempotency key: each request makes one more. The old one stays as it is, in whatever"
    " status. `data.cloned_from` of the new one's first event names it; its own `cloned` event"
    " names the new one.",
    examples=(Example("With a reason.", json={"reason": "the mail was lost on its way"}),),
)
def clone(job_id: str) -> Response:
    """Make a new job of what another one was asked to do."""
    number, session = read_id(job_id), db.session()
    by = _by(read_reason())
    made = intake().create(
        session, lambda ceiling: handlers.clone(session, number, ceiling=ceiling, **by), keyed=False
    )
    job = describe.whole_job(made.job, for_reader())
    session.commit()
    place = {"Location": url_for(".show", job_id=made.id), **intake().headers()}
    return describe.json_answer(job, 201, place)


@bp.post("/<job_id>/purge")
@permits(Permission.ADMIN)
@contract(
    Part.ACT,
    {200: Answer("The last line of its history, which is what is left of it.", answers.Event)},
    body=Body(PurgeBody),
    refuses=_REFUSES,
    more="Its row goes, with payload, result and error. Its lines in the ledger stay for as long as"
    " the ledger is kept; the last one, `purged`, has in its `data` the producer and the"
    " idempotency key, which makes a new job from now on. There is no undo: read the job first if"
    " it may be needed. Sent again, the request is answered 404.",
    examples=(Example("With the reason.", json={"reason": "it held what it must not hold"}),),
)
def purge(job_id: str) -> Response:
    """Remove a job that is over, for good."""
    number, body, session = read_id(job_id), read_model(PurgeBody), db.session()
    moved = transitions.one(transitions.purge, session, number, **_by(body.reason))
    [line] = queries.latest_events_of(session, moved.id, limit=1)
    [whole] = queries.events_of(session, moved.id, after=line.id - 1, limit=1)
    last = describe.event(whole)
    session.commit()
    return describe.json_answer(last)


def place_of(body: Any) -> dict[str, Any]:
    """Where in the line a body asks for. Raises InvalidRequest for nowhere and for two places."""
    if body.available_at is not None and body.delay is not None:
        raise invalid_at(("delay",), "give either delay or available_at")
    if body.available_at is None and body.delay is None and body.priority is None:
        raise invalid_at((), "give available_at, delay or priority")
    return {
        "available_at": body.available_at,
        "delay_s": body.delay,
        "priority": body.priority,
    }


def _by(reason: str | None) -> By:
    return {"actor": current_principal().actor, "reason": reason, "via": "api"}


def _in_line(verb: PersonVerb, number: int, how: dict[str, Any]) -> Response:
    moved = transitions.one_unless_there(verb, db.session(), number, **how)
    return _shown(number, {} if moved else {"Idempotent-Replayed": "true"})


def _moved(moved: Moved) -> Response:
    return _shown(moved.id, {})


def _shown(number: int, headers: dict[str, str]) -> Response:
    session = db.session()
    job = describe.whole_job(queries.get_job(session, number), for_reader())
    session.commit()
    return describe.json_answer(job, 200, headers)
