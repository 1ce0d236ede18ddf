"""From a filter to a plan: which verb, why, and what is to be undone. No job is changed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Response, redirect, request, url_for
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import Permission, current_principal, permits
from queueapp.console import in_line, stops
from queueapp.console.actions import REASON_LENGTH, given_reason
from queueapp.console.blueprint import bp
from queueapp.console.criteria import (
    FILTER,
    Criteria,
    has_empty_fields,
    is_of_payload,
    read_criteria,
)
from queueapp.console.forms import Form, Unfit, refilled, shown
from queueapp.console.operation_story import WORDS
from queueapp.console.operations import shown_again
from queueapp.console.readings import tried
from queueapp.errors import BadRequest, OperationNeedsAdmin
from queueapp.extensions import db
from queueapp.jobs import operations, queries
from queueapp.jobs.operations import Operation, Terms
from queueapp.jobs.queries import JobFilter, Span, View
from queueapp.jobs.status import Status
from queueapp.redaction import for_all_readers

# A form that comes twice within so long was sent twice.
SAME_FORM = timedelta(minutes=1)
# Enter in a field presses the first button that may be pressed.
ORDER = ("retry", "run-now", "hold", "unhold", "reschedule", "cancel", "purge")
# What may stand in the form before anybody types.
_FIELDS = ("reason", "minutes", "to_priority", "spread")
_MOMENT = timedelta(microseconds=1)


@bp.get("/operations/new")
@permits(Permission.ACT)
def new_operation() -> AnyResponse:
    """Ask what is to be done to all jobs that match the address, and why.

    ``?verb=``: which one is offered first; ``?reason=``, ``?minutes=``, ``?to_priority=`` and
    ``?spread=``: what stands in their fields at first.
    """
    session = db.session()
    queries.bound_reads(session)
    args = MultiDict(request.args)
    verb = args.pop("verb", "")
    begun = {name: args.pop(name, "")[:REASON_LENGTH] for name in _FIELDS}
    criteria = _criteria(session, args)
    if has_empty_fields(args) and not criteria.problems:
        # The form of the filter sends those that nobody filled in as well.
        return redirect(criteria.url("console.new_operation", verb=verb, **begun))
    return _ask(session, criteria, Form(begun), meant=verb)


@bp.post("/operations")
@permits(Permission.ACT)
def plan_operation() -> AnyResponse:
    """Plan what the button says for all jobs that match; the operation's page asks then."""
    pressed, session = request.form.get("verb", ""), db.session()
    verb = "retry" if pressed == "canary" else pressed
    fields = [(n, v) for n, v in request.form.items(multi=True) if n in FILTER or is_of_payload(n)]
    criteria = _criteria(session, MultiDict(fields))
    if verb not in operations.VERBS:
        raise BadRequest(f"press a button of the form: {', '.join((*operations.VERBS, 'canary'))}")
    for problem in (*criteria.problems, _unfit(verb, criteria)):
        if problem:
            raise BadRequest(f"nothing was planned: {problem[:1].lower()}{problem[1:].rstrip('.')}")
    operations.refuse_verb(verb, current_principal().most_jobs)
    if _is_beyond(criteria):
        raise OperationNeedsAdmin("only an admin may plan for every job there is: set a filter")
    try:
        how = _place() if verb == "reschedule" else {}
        asked = asked_of(criteria, queries.database_now(session))
        canary = Terms() if pressed == "canary" else None
        key = f"{pressed} {how} {criteria.url()}"
        made = planned(session, verb, asked, key=key, how=how, canary=canary)
    except Unfit as error:
        queries.bound_reads(session)
        return _ask(session, criteria, refilled(error))
    return redirect(url_for(".operation", operation_id=made.id), 303)


@bp.post("/operations/<operation_id>/undo")
@permits(Permission.ACT)
def undo_operation(operation_id: str) -> AnyResponse:
    """Plan the undo of an operation; its own page asks then."""
    session = db.session()
    queries.bound_reads(session)
    origin = operations.find(session, operations.known_id(operation_id))
    try:
        reason = _reason()
    except Unfit as error:
        return shown_again(session, origin, refilled(error))
    made, free = _of_form(session, f"undo {origin.id} {reason}")
    if made is None:
        found, actor = operations.survey_undo(session, origin), current_principal().actor
        made = operations.plan(
            session, found, how={}, actor=actor, reason=reason, key=free, via="console"
        )
        session.commit()
    return redirect(url_for(".operation", operation_id=made.id), 303)


def _criteria(session: Session, args: MultiDict[str, str]) -> Criteria:
    """The filter of a plan: the ledger keeps it, so it asks for nothing that is hidden."""
    return read_criteria(args, queries.database_now(session), for_all_readers())


def _ask(
    session: Session,
    criteria: Criteria,
    form: Form,
    *,
    meant: str = "",
) -> Response:
    """The question; ``meant``: the verb that comes first."""
    order = sorted(ORDER, key=lambda verb: verb != meant)
    now = queries.database_now(session)
    number = None
    if not criteria.problems:
        number = tried(session, queries.count_jobs, criteria.where)
    return shown(
        "plan",
        form,
        as_of=now,
        criteria=criteria,
        number=number,
        scan_limit=queries.SCAN_LIMIT,
        wider=_wider(criteria),
        verbs={verb: (WORDS[verb], _unfit(verb, criteria)) for verb in order},
        meant=meant,
        stops=stops.Stops.of(stops.known(), {kind} if (kind := criteria.where.kind) else None),
        needs_admin=_is_beyond(criteria),
        reason_length=REASON_LENGTH,
    )


def _wider(criteria: Criteria) -> dict[str, str]:
    """The same question without one part of the filter, by what it leaves out."""
    address, given = url_for(".new_operation"), criteria.given
    return {
        f"{name} {', '.join(values)}": f"{address}?"
        + urlencode([(n, v) for n, vs in given.items() if n != name for v in vs])
        for name, values in given.items()
    }


def planned(
    session: Session,
    verb: str,
    asked: JobFilter,
    *,
    key: str,
    how: Mapping[str, Any] | None = None,
    canary: Terms | None = None,
) -> Operation:
    """Plan ``verb`` for the reason in the form, and commit. ``key``: tells forms apart.

    Raises Unfit without a reason.
    """
    reason = _reason()
    made, free = _of_form(session, f"{key} {reason}")
    if made is not None:
        return made
    # The counts are of just what the plan sees. Only read there: what reads one state and then
    # writes may be refused.
    session.rollback()
    session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    queries.bound_reads(session)
    found = operations.survey(session, verb, asked)
    session.rollback()
    actor = current_principal().actor
    made = operations.plan(
        session,
        found,
        how=how or {},
        actor=actor,
        reason=reason,
        canary=canary,
        key=free,
        via="console",
    )
    session.commit()
    return made


def asked_of(criteria: Criteria, now: datetime) -> JobFilter:
    """The filter as a plan keeps it: what is due grows, so its moment is written down."""
    where, after_now = criteria.where, now + _MOMENT
    if where.view is None:
        return where
    where = replace(where, status=(Status.QUEUED,))
    if where.view is View.RETRYING:
        return where
    is_due = where.view is View.DUE
    span = Span(None, after_now) if is_due else Span(after_now, None)
    return replace(where, view=None, available=span)


def _reason() -> str:
    reason = given_reason()
    if not reason:
        raise Unfit("reason", "say why: the ledger keeps the reason with each job")
    return reason


def _of_form(session: Session, key: str) -> tuple[Operation | None, str | None]:
    """The plan of the same form, sent a moment ago and not over yet; else a key to plan with.

    A plan that is older, or over, was meant as one of its own.
    """
    key = f"form {key}"
    made = operations.planned_before(session, current_principal().actor, key)
    if made is None:
        return None, key
    is_same = not made.is_over and queries.database_now(session) - made.planned_at < SAME_FORM
    return (made if is_same else None), None


def _is_beyond(criteria: Criteria) -> bool:
    """Whether nothing is asked for, by somebody who may not move every job there is."""
    return not criteria.is_narrow and current_principal().most_jobs is not None


def _unfit(verb: str, criteria: Criteria) -> str | None:
    """Why a verb can do nothing to what the address asks for; None if it may."""
    where = criteria.where
    implied = [Status.QUEUED] * bool(where.view) + [Status.RUNNING] * bool(where.worker)
    asked = where.status or tuple(implied[:1])
    if operations.statuses_of(verb, asked):
        return None
    able = operations.VERBS[verb].statuses
    return f"{WORDS[verb].button} is for jobs that are {' or '.join(able)}."


def _place() -> dict[str, Any]:
    """Where in the line the form asks for. Raises Unfit."""
    delay_s, priority, spread_s = in_line.delay_s(), in_line.priority(), in_line.spread_s()
    if delay_s is None and priority is None and spread_s is None:
        raise Unfit(
            "minutes", "say in how many minutes they are to be due, how spread, or their priority"
        )
    place = {"available_at": None, "delay_s": delay_s, "priority": priority}
    return place if spread_s is None else {**place, "spread_s": spread_s}
