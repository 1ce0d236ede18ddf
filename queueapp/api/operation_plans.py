"""Plans of operations: what is to be done to which jobs, or undone. Nothing is changed yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, url_for

from queueapp.api import describe, operation_answers
from queueapp.api.contract import REPLAYED, Answer, Body, Example, Header, Part, contract
from queueapp.api.invalid import invalid_at
from queueapp.api.lists import refuse_hidden
from queueapp.api.moves import place_of
from queueapp.api.operation_model import Operation
from queueapp.api.operation_schemas import (
    PLACE,
    OperationBody,
    OperationFilter,
    UndoBody,
)
from queueapp.api.operations import bp, shown
from queueapp.api.reading import read_key, read_model
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import (
    IdempotencyConflict,
    NotUndoable,
    OperationNeedsAdmin,
    OperationNotFound,
)
from queueapp.extensions import db
from queueapp.jobs import operations, queries
from queueapp.jobs.queries import JobFilter
from queueapp.redaction import for_all_readers

_LOCATION = Header("Location", "The address of the operation.")
_KEY = Header(
    "Idempotency-Key",
    "Belongs to this request, so that it may be repeated: the plan is made once.",
    {"type": "string", "minLength": 1, "maxLength": 200},
)
_AGAIN = Answer(
    "The same request was here before: the operation as it is now.",
    Operation,
    (_LOCATION, REPLAYED),
)


@bp.post("")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {201: Answer("The plan, with its counts.", Operation, (_LOCATION,)), 200: _AGAIN},
    body=Body(OperationBody),
    takes=(_KEY,),
    refuses=(IdempotencyConflict, OperationNeedsAdmin),
    more="It is for the jobs that match at this moment: those that are created or move afterwards"
    " are left alone. Counting goes on for about a second; while `planned.more` is true, apply goes"
    " on with it before anything is moved. A purge, of which there is no undo, is planned and"
    " applied by admins alone.",
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
    operations.refuse_verb(body.verb, current_principal().most_jobs)
    where, how, key = _filter(body.verb, body.filter), _how(body), read_key()
    session, actor = db.session(), current_principal().actor
    canary = operations.Terms() if body.canary else None
    asked = {
        "verb": body.verb,
        "filter": where,
        **_told_place(how),
        "reason": body.reason,
        "canary": body.canary,
    }
    if key and (made := operations.planned_before(session, actor, key)):
        return _replayed(made, asked)
    # The counts are of just what the plan sees. Only read there: what reads one state and then
    # writes may be refused.
    session.rollback()
    session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    queries.bound_reads(session)
    found = operations.survey(session, body.verb, where)
    session.rollback()
    made = operations.plan(
        session,
        found,
        how=how,
        actor=actor,
        reason=body.reason,
        canary=canary,
        key=key,
        via="api",
    )
    session.commit()
    return _planned(made)


@bp.post("/<operation_id>/undo")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {201: Answer("The plan of the undo.", Operation, (_LOCATION,)), 200: _AGAIN},
    body=Body(UndoBody),
    takes=(_KEY,),
    refuses=(OperationNotFound, NotUndoable, IdempotencyConflict),
    more="It is an operation like others, to be applied: it moves the jobs to which nothing has"
    " happened since back to where they were: after a cancel, queued or held with their due time"
    " and priority; after hold, unhold, reschedule and run-now likewise. There is no way back from"
    " a retry or a purge, nor from a request to stop.",
    examples=(Example("The wrong filter.", json={"reason": "that was the wrong kind"}),),
)
def undo(operation_id: str) -> Response:
    """Plan the undo of an operation that is over; nothing is changed yet."""
    number, body, key = operations.known_id(operation_id), read_model(UndoBody), read_key()
    session, actor = db.session(), current_principal().actor
    asked = {"verb": operations.UNDO, "undoes": number, "reason": body.reason}
    if key and (made := operations.planned_before(session, actor, key)):
        return _replayed(made, asked)
    queries.bound_reads(session)
    found = operations.survey_undo(session, operations.find(session, number))
    made = operations.plan(
        session, found, how={}, actor=actor, reason=body.reason, key=key, via="api"
    )
    session.commit()
    return _planned(made)


def _planned(made: operations.Operation) -> Response:
    place = {"Location": url_for(".show", operation_id=made.id)}
    return describe.json_answer(operation_answers.told(made, made.counts), 201, place)


def _replayed(made: operations.Operation, asked: Mapping[str, Any]) -> Response:
    """The operation that the same request has planned before; refused if it was another one."""
    was = {
        "verb": made.verb,
        "undoes": made.undoes,
        "filter": made.asked,
        **_told_place(made.how),
        "reason": made.reason,
        "canary": made.canary is not None,
    }
    other = [name for name, value in asked.items() if was[name] != value]
    if other:
        raise IdempotencyConflict(
            f"the key was used to plan operation {made.id}, with another {' and '.join(other)}",
            operation=made.id,
            fields=other,
        )
    answer = shown(made.id)
    answer.headers["Location"] = url_for(".show", operation_id=made.id)
    answer.headers["Idempotent-Replayed"] = "true"
    return answer


def _told_place(how: Mapping[str, Any]) -> dict[str, Any]:
    names = {"delay": "delay_s", "spread": "spread_s"}
    return {name: how.get(names.get(name, name)) for name in PLACE}


def _filter(verb: str, asked: OperationFilter) -> JobFilter:
    if not asked.model_fields_set:
        raise invalid_at(("filter",), "name at least one field")
    able = operations.VERBS[verb].statuses
    where = asked.where()
    refuse_hidden(where, for_all_readers(), "it is hidden, and the ledger keeps the filter")
    if where.status and not set(where.status) & set(able):
        raise invalid_at(("filter", "status"), f"{verb} moves jobs that are {' or '.join(able)}")
    return where


def _place(body: OperationBody) -> dict[str, Any]:
    """Where in the line they go, spread or not; a spread alone is a place as well."""
    if not body.spread:
        return place_of(body)
    if body.available_at is not None and body.delay is not None:
        raise invalid_at(("delay",), "give either delay or available_at")
    place = {"available_at": body.available_at, "delay_s": body.delay, "priority": body.priority}
    return {**place, "spread_s": body.spread}


def _how(body: OperationBody) -> dict[str, Any]:
    if body.canary and body.verb != "retry":
        raise invalid_at(("canary",), f"{body.verb} has no canary: only retry has")
    if body.verb == "reschedule":
        return _place(body)
    for name in PLACE:
        if name in body.model_fields_set:
            raise invalid_at((name,), f"{body.verb} takes no {name}")
    return {}
