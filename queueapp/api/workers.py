"""Who is at work; asking one of them to drain, and taking from a dead one what it holds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from flask import Blueprint, Response
from pydantic import AfterValidator, BaseModel, Field

from queueapp.api.acting_schemas import Reason, Seen
from queueapp.api.contract import REPLAYED, Answer, Body, Example, Part, contract
from queueapp.api.describe import instant, json_answer
from queueapp.api.reading import read_model
from queueapp.api.schemas import _NOT_SENT, _Body, _not_blank, _says
from queueapp.api.worker_answers import Worker, Workers, listed, told
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import CannotDrain, WorkerIsLive, WorkerNotFound
from queueapp.extensions import db
from queueapp.jobs import control, draining, queries, transitions, workers
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


class ClaimSeen(_Body):
    """One claim, as its job showed it."""

    job_id: Annotated[int, Field(ge=1, lt=2**63, description="The job.")]
    claimed_at: Annotated[Seen, _says("Its `claimed_at`: it tells claims apart.")]


class ReleaseClaimsBody(_Body):
    """Which claims are taken from a worker, and why."""

    claims: Annotated[
        list[ClaimSeen],
        Field(
            min_length=1, max_length=workers.MOST_HELD, description="The claims that you have seen."
        ),
    ]
    alive: Annotated[
        bool, _says("Also from a worker that lives, for all that is known: it goes on with them.")
    ] = False
    reason: Annotated[Reason, _says("Why; kept in the ledger.")] = _NOT_SENT


class ReleaseAnswer(BaseModel):
    """What was taken."""

    worker: Annotated[str, _says("Its name.")]
    released: Annotated[list[int], _says("The jobs that were taken: they wait again, or ended.")]
    left: Annotated[int, _says("How many of the claims were not there any more.")]


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


@bp.post("/<worker>/release")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: Answer("What was taken.", ReleaseAnswer)},
    body=Body(ReleaseClaimsBody),
    refuses=(WorkerNotFound, WorkerIsLive),
    more="Name the claims that you have seen, as `GET /api/jobs?worker=…` shows them: what it has"
    " claimed since stays with it. Each job runs again at once; with no attempt left it has failed,"
    " and one that was asked to stop is cancelled. If the worker lives after all they run twice.",
    examples=(
        Example(
            "All that it held.",
            json={
                "claims": [{"job_id": 1, "claimed_at": "2030-01-31T08:00:00.000000Z"}],
                "reason": "its machine burnt down",
            },
        ),
    ),
)
def release(worker: str) -> Response:
    """Take from a dead worker the jobs that it holds."""
    body, session = read_model(ReleaseClaimsBody), db.session()
    queries.bound_reads(session)
    is_dead = read_roll(session).known(worker).is_dead
    # The reading's bounds are not those of the move.
    session.rollback()
    if not (is_dead or body.alive):
        raise WorkerIsLive(
            "nothing was released: the worker lives, as far as is known, so it would go on with its"
            " jobs while others begin them; cancel its jobs, stop it, or send alive: true"
        )
    claims = {one.job_id: one.claimed_at for one in body.claims}
    moved = transitions.release_claims(
        session,
        claims,
        holder=worker,
        actor=current_principal().actor,
        reason=body.reason,
        via="api",
    )
    session.commit()
    ids = [one.id for one in moved]
    return json_answer({"worker": worker, "released": ids, "left": len(claims) - len(ids)})
