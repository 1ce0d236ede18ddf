"""One verb over many jobs: a plan with counts first, then applied in batches, stopped if need be.

A request moves at most a few batches, each committed by itself, and says what is left. The state is
in the ledger alone, so any process can go on, and a request whose answer was lost is just repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import monotonic
from typing import Any

from flask import Blueprint, Response, url_for

from queueapp.api import describe
from queueapp.api.contract import Answer, Body, Example, Header, Part, contract
from queueapp.api.invalid import invalid_at
from queueapp.api.moves import place_of
from queueapp.api.operation_schemas import (
    PLACE,
    Operation,
    OperationBody,
    OperationFilter,
    told_filter,
)
from queueapp.api.reading import read_model, read_nothing, read_reason
from queueapp.api.schemas import NoBody, ReasonBody
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import OperationBusy, OperationNotFound, OperationStopped
from queueapp.extensions import db
from queueapp.jobs import operations, queries
from queueapp.jobs.failure import printable
from queueapp.jobs.operations import Counts
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status

bp = Blueprint("api_operations", __name__, url_prefix="/api/operations")

# What one request may move, and how long it may go on.
MOST_BATCHES = 10
LONGEST_S = 1.0

_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_LOCATION = Header("Location", "The address of the operation.")
_AS_IT_IS = Answer("The operation as it is now.", Operation)


@bp.post("")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {201: Answer("The plan, with its counts.", Operation, (_LOCATION,))},
    body=Body(OperationBody),
    more="It is for the jobs that match at this moment: those that are created or move afterwards"
    " are left alone. Counting stops at 10,000.",
    examples=(
        Example(
            "Let all failures of a kind run again.",
            json={
                "verb": "retry",
                "filter": {"status": ["failed"], "kind": "demo.echo"},
                "reason": "the provider is back",
            },
        ),
    ),
)
def plan() -> Response:
    """Plan one verb over all jobs that match a filter; nothing is changed yet."""
    body = read_model(OperationBody)
    where, how = _filter(body.verb, body.filter), _how(body)
    session = db.session()
    # The counts are of just what the plan sees. Only read there: what reads one state and then
    # writes may be refused.
    session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    queries.bound_reads(session)
    found = operations.survey(session, body.verb, where)
    session.rollback()
    actor = current_principal().actor
    canary = operations.Terms() if body.canary else None
    made = operations.plan(session, found, how=how, actor=actor, reason=body.reason, canary=canary)
    session.commit()
    place = {"Location": url_for(".show", operation_id=made.id)}
    return describe.json_answer(_told(made, made.counts), 201, place)


@bp.get("/<operation_id>")
@permits(Permission.READ)
@contract(
    Part.ACT,
    {200: _AS_IT_IS},
    refuses=(OperationNotFound,),
    examples=(Example("How far is it?"),),
)
def show(operation_id: str) -> Response:
    """Show an operation: its plan, what it has moved, what is left."""
    return _shown(_read_id(operation_id))


@bp.post("/<operation_id>/apply")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {
        202: Answer("Some jobs are moved, others are left: ask again.", Operation),
        200: Answer("It is done.", Operation),
    },
    body=Body(NoBody, required=False),
    refuses=(OperationNotFound, OperationBusy, OperationStopped),
    more="A request moves up to 5,000 jobs within about a second. Repeat it while the answer is"
    " 202, and after a time-out or a 503 as well: no job is moved twice. While `state` is `canary`"
    " it moves nothing: a worker decides, and then goes on by itself.",
    examples=(Example("Until it answers 200."),),
)
def apply(operation_id: str) -> Response:
    """Apply an operation: move its next jobs, the oldest first."""
    number, actor = _read_id(operation_id), current_principal().actor
    read_nothing()
    for made in _steps(number, actor):
        if made.state == "stopped":
            raise OperationStopped(
                f"operation {number} was stopped by {made.changed_by}; it has moved"
                f" {made.moved} jobs",
                operation=number,
            )
    return _shown(number, goes_on=202)


@bp.post("/<operation_id>/stop")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _AS_IT_IS},
    body=Body(ReasonBody, required=False),
    refuses=(OperationNotFound,),
    more="A batch of up to 500 jobs that is at work is completed. What is done or stopped already"
    " stays as it is.",
    examples=(Example("Without a reason."),),
)
def stop(operation_id: str) -> Response:
    """Stop an operation for good; what it has moved stays moved."""
    number, reason, session = _read_id(operation_id), read_reason(), db.session()
    operations.stop(session, number, actor=current_principal().actor, reason=reason)
    session.commit()
    return _shown(number)


def _steps(number: str, actor: str) -> Iterator[operations.Operation]:
    """Apply batch after batch, each committed, while there is time."""
    session, deadline = db.session(), monotonic() + LONGEST_S
    for nth in range(MOST_BATCHES):
        try:
            queries.bound_reads(session)
            made = operations.step(session, number, actor=actor, via="api")
        except OperationBusy:
            session.rollback()
            if nth == 0:
                raise
            return  # somebody else goes on with it
        session.commit()
        yield made
        if made.is_over or made.is_on_trial or monotonic() > deadline:
            return


def _read_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise OperationNotFound(f"there is no operation '{printable(text[:50])}'")
    return text


def _filter(verb: str, asked: OperationFilter) -> JobFilter:
    if not asked.model_fields_set:
        raise invalid_at(("filter",), "name at least one field")
    able = operations.VERBS[verb].statuses
    where = asked.where()
    if where.status and not set(where.status) & set(able):
        raise invalid_at(("filter", "status"), f"{verb} moves jobs that are {' or '.join(able)}")
    return where


def _how(body: OperationBody) -> dict[str, Any]:
    if body.canary and body.verb != "retry":
        raise invalid_at(("canary",), f"{body.verb} has no canary: only retry has")
    if body.verb == "reschedule":
        return place_of(body)
    for name in PLACE:
        if name in body.model_fields_set:
            raise invalid_at((name,), f"{body.verb} takes no {name}")
    return {}


def _shown(number: str, *, goes_on: int = 200) -> Response:
    session = db.session()
    queries.bound_reads(session)
    made = operations.find(session, number)
    left = Counts({}, whole=True) if made.state == "done" else operations.left_of(session, made)
    return describe.json_answer(_told(made, left), 200 if made.state == "done" else goes_on)


def _told(made: operations.Operation, left: Counts) -> dict[str, Any]:
    due = made.how.get("available_at")
    return {
        "id": made.id,
        "state": made.state,
        "verb": made.verb,
        "filter": told_filter(made.where),
        "available_at": describe.instant(due) if due else None,
        "delay": made.how.get("delay_s"),
        "priority": made.how.get("priority"),
        "reason": made.reason,
        "planned_by": made.planned_by,
        "planned_at": describe.instant(made.planned_at),
        "planned": _count(made.counts),
        "counts": {
            status: {"count": made.counts.by_status.get(status, 0), "more": not made.counts.whole}
            for status in Status
            if status in made.where.status
        },
        "moved": made.moved,
        "skipped": made.skipped,
        "left": _count(left),
        "canary": _canary(made),
        "end_reason": made.end_reason,
        "changed_by": made.changed_by,
        "changed_at": describe.instant(made.changed_at),
    }


def _count(counts: Counts) -> dict[str, Any]:
    return {"count": counts.total, "more": not counts.whole}


def _canary(made: operations.Operation) -> dict[str, Any] | None:
    canary = made.canary
    if canary is None:
        return None
    trials = operations.trials_of(db.session(), made.id, canary, planned_at=made.planned_at)
    return {
        "first": canary.terms.first,
        "needed": canary.terms.needed,
        "jobs": [
            {"id": trial.id, "outcome": trial.fate if trial.has_ended else None} for trial in trials
        ],
        "until": describe.instant(canary.until) if canary.until else None,
        "passed": canary.passed,
    }
