"""Operations over many jobs: listed, shown, applied in batches, stopped if need be.

A request moves at most a few batches, each committed by itself, and says what is left. The state is
in the ledger alone, so any process can go on, and a request whose answer was lost is just repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from flask import Blueprint, Response

from queueapp.api import describe, operation_answers
from queueapp.api.contract import Answer, Body, Example, Part, contract
from queueapp.api.operation_model import Operation, OperationsPage
from queueapp.api.operation_schemas import OperationsQuery
from queueapp.api.reading import read_nothing, read_query, read_reason
from queueapp.api.schemas import NoBody, ReasonBody
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import (
    OperationBusy,
    OperationNeedsAdmin,
    OperationNotFound,
    OperationStopped,
)
from queueapp.extensions import db
from queueapp.jobs import operations, queries
from queueapp.jobs.operations import Counts
from queueapp.jobs.why.words import counted

bp = Blueprint("api_operations", __name__, url_prefix="/api/operations")

# What one request may move, and how long it may go on.
MOST_BATCHES = 10
LONGEST_S = 1.0

_AS_IT_IS = Answer("The operation as it is now.", Operation)


@bp.get("")
@permits(Permission.READ)
@contract(
    Part.ACT,
    {200: Answer("A page of operations.", OperationsPage)},
    query=OperationsQuery,
    examples=(Example("The newest two.", query="limit=2"),),
)
def list_all() -> Response:
    """List operations, the newest plan first."""
    query, session = read_query(OperationsQuery), db.session()
    queries.bound_reads(session)
    now = queries.database_now(session)
    found, older = operations.list_operations(session, now, before=query.before, limit=query.limit)
    undone = operations.undone_of(session, found)
    return describe.json_answer(
        {
            "items": [operation_answers.listed(made, undone[made.id]) for made in found],
            "next": None if older is None else str(older),
        }
    )


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
    return shown(operations.known_id(operation_id))


@bp.post("/<operation_id>/apply")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {
        202: Answer("Some jobs are moved, others are left: ask again.", Operation),
        200: Answer("It is done.", Operation),
    },
    body=Body(NoBody, required=False),
    refuses=(OperationNotFound, OperationBusy, OperationStopped, OperationNeedsAdmin),
    more="A request moves up to 5,000 jobs within about a second. Repeat it while the answer is"
    " 202, and after a time-out or a 503 as well: no job is moved twice. While `state` is"
    " `counting` it counts on, and moves nothing before all are counted. While it is `canary` it"
    " moves nothing: a worker decides, and then goes on by itself. For more than 10,000 jobs,"
    " and for a purge, it takes an admin.",
    examples=(Example("Until it answers 200."),),
)
def apply(operation_id: str) -> Response:
    """Apply an operation: move its next jobs, the oldest first."""
    number, actor = operations.known_id(operation_id), current_principal().actor
    read_nothing()
    for made in _steps(number, actor):
        if made.state == "stopped":
            raise OperationStopped(
                f"operation {number} was stopped by {made.changed_by}; it has moved"
                f" {counted(made.moved, 'job')}",
                operation=number,
            )
    return shown(number, goes_on=202)


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
    number, reason, session = operations.known_id(operation_id), read_reason(), db.session()
    operations.stop(session, number, actor=current_principal().actor, reason=reason, via="api")
    session.commit()
    return shown(number)


def _steps(number: str, actor: str) -> Iterator[operations.Operation]:
    """Apply batch after batch, each committed, while there is time."""
    session, deadline = db.session(), monotonic() + LONGEST_S
    most = current_principal().most_jobs
    for nth in range(MOST_BATCHES):
        try:
            queries.bound_reads(session)
            made = operations.step(session, number, actor=actor, via="api", most=most)
        except OperationBusy:
            session.rollback()
            if nth == 0:
                raise
            return  # somebody else goes on with it
        session.commit()
        yield made
        if made.is_over or made.is_on_trial or monotonic() > deadline:
            return


def shown(number: str, *, goes_on: int = 200) -> Response:
    """The operation as it is now; ``goes_on``: the status unless it is done."""
    session = db.session()
    queries.bound_reads(session)
    made = operations.find(session, number)
    left = Counts({}, whole=True) if made.state == "done" else operations.left_of(session, made)
    status = 200 if made.state == "done" else goes_on
    return describe.json_answer(operation_answers.told(made, left), status)
