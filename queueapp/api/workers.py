"""Who is at work; and asking one of them to drain."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from flask import Blueprint, Response
from pydantic import AfterValidator, BaseModel, Field

from queueapp.api.acting_schemas import Reason
from queueapp.api.contract import REPLAYED, Answer, Body, Example, Part, contract
from queueapp.api.describe import instant, json_answer
from queueapp.api.reading import read_model
from queueapp.api.schemas import _Body, _not_blank, _says
from queueapp.api.worker_answers import Worker, Workers, listed, told
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import CannotDrain, WorkerNotFound
from queueapp.extensions import db
from queueapp.jobs import control, draining, queries, workers
from queueapp.jobs.presence import Connections
from queueapp.roll import read_roll

bp = Blueprint("api_workers", __name__, url_prefix="/api/workers")


class DrainBody(_Body):
    """Why a worker is to drain."""

    reason: Annotated[
        Reason,
        Field(min_length=1, description="Why; its last line in the log has it."),
        AfterValidator(_not_blank),
    ]


class DrainAnswer(BaseModel):
    """Who has asked a worker to drain."""

    worker: Annotated[str, _says("Its name.")]
    by: Annotated[str, _says("Who asked first.")]
    since: Annotated[datetime, _says("When.")]
    reason: Annotated[str | None, _says("Why.")]


@bp.get("")
@permits(Permission.READ)
@contract(
    Part.QUEUE,
    {200: Answer("The workers.", Workers)},
    more="Those that ended since yesterday are among them.",
    examples=(Example("Who is at work?"),),
)
def index() -> Response:
    """List every worker that is known of, the stale ones first."""
    session = db.session()
    queries.bound_reads(session)
    return json_answer(listed(read_roll(session)))


@bp.get("/<worker>")
@permits(Permission.READ)
@contract(
    Part.QUEUE,
    {200: Answer("The worker.", Worker)},
    refuses=(WorkerNotFound,),
    more="What it holds are the jobs of `GET /api/jobs?worker=…`.",
    examples=(Example("How does one stand?"),),
)
def show(worker: str) -> Response:
    """Show one worker."""
    session = db.session()
    queries.bound_reads(session)
    return json_answer(told(read_roll(session).known(worker)))


@bp.post("/<worker>/drain")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {
        200: Answer(
            "Who asked it. `Idempotent-Replayed` says that it had been asked before, and nothing"
            " was changed.",
            DrainAnswer,
            (REPLAYED,),
        )
    },
    body=Body(DrainBody),
    refuses=(WorkerNotFound, CannotDrain),
    more="Within two seconds it takes no new job. What it runs may take as long as it does; then"
    " it exits with status 0. Whoever is started in its place has another name, and is not asked."
    " A worker that leases over HTTP has no process here that could be asked.",
    examples=(Example("Before its machine goes.", json={"reason": "the machine is replaced"}),),
)
def drain(worker: str) -> Response:
    """Ask a worker to take nothing more, finish what it runs, and end."""
    body, session = read_model(DrainBody), db.session()
    queries.bound_reads(session)
    control.take_turns(session)
    now = queries.database_now(session)
    # Whose connections are open makes no difference here.
    roll = workers.call(session, now, Connections({}, "not looked at"))
    if refusal := workers.why_not_drained(roll.known(worker)):
        raise CannotDrain(f"it cannot be asked to drain: {refusal}")
    headers = {"Idempotent-Replayed": "true"}
    asked = draining.asked(session, worker)
    if asked is None:
        headers, actor = {}, current_principal().actor
        draining.ask(session, worker, actor=actor, reason=body.reason, via="api")
        asked = draining.asked(session, worker)
    session.commit()
    assert asked is not None
    said = {"worker": worker, "by": asked.actor, "since": instant(asked.at), "reason": asked.reason}
    return json_answer(said, 200, headers)
