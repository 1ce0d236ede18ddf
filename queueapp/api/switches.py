"""Pause and resume the queue, hold kinds and lift the holds; what of it is in force."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from flask import Blueprint, Response
from pydantic import AfterValidator, Field
from sqlalchemy.orm import Session

from queueapp import judgement
from queueapp.api.acting_schemas import Reason
from queueapp.api.contract import REPLAYED, Answer, Body, Example, Part, contract
from queueapp.api.describe import instant, json_answer
from queueapp.api.known_kinds import alike, is_known
from queueapp.api.model import Model
from queueapp.api.reading import read_model, read_optional, read_reason
from queueapp.api.schemas import _NOT_SENT, ReasonBody, _Body, _not_blank, _says
from queueapp.application import this_app
from queueapp.auth import Permission, current_principal, permits
from queueapp.errors import KindNotFound
from queueapp.extensions import db
from queueapp.jobs import control, queries
from queueapp.jobs.control import QUEUE, Switch, scope_of
from queueapp.jobs.failure import printable
from queueapp.jobs.names import KIND

# How long a pause or a hold may be set for, and over how long jobs may be spread.
LONGEST_S = 30 * 86_400.0

bp = Blueprint("api_switches", __name__, url_prefix="/api")


class StopBody(_Body):
    """Why work is to stop, and for how long."""

    reason: Annotated[
        Reason,
        Field(min_length=1, description="Why; whoever finds it stopped sees this."),
        AfterValidator(_not_blank),
    ]
    duration: Annotated[
        float,
        Field(
            gt=0,
            le=LONGEST_S,
            description="Seconds after which it ends by itself; else when somebody lifts it.",
        ),
    ] = _NOT_SENT


class UnholdBody(_Body):
    """How the jobs come back."""

    reason: Annotated[Reason, _says("Why; kept in the ledger.")] = _NOT_SENT
    spread: Annotated[
        float,
        Field(ge=0, le=86_400, description="Seconds over which they become due; 0: all at once."),
    ] = _NOT_SENT


class SwitchAnswer(Model):
    """What was last said of the queue or of a kind."""

    scope: Annotated[str, _says("`queue`, or `kind:` and the kind.")]
    stopped: Annotated[bool, _says("Whether it keeps work from starting.")]
    event: Annotated[str | None, _says("The line of the ledger that says so; null: none does.")]
    by: Annotated[str | None, _says("Who.")]
    since: Annotated[datetime | None, _says("When.")]
    reason: Annotated[str | None, _says("Why.")]
    until: Annotated[datetime | None, _says("When it ends by itself; null: when it is lifted.")]
    spread: Annotated[float, _says("Of a lifted hold: seconds over which its jobs come back.")]


class StopAnswer(SwitchAnswer):
    """What is in force now, and what was before."""

    replaced: Annotated[
        SwitchAnswer | None,
        _says("The pause or hold in whose place it stands, perhaps somebody else's; null: none."),
    ]


class HoldAnswer(StopAnswer):
    """The hold of a kind, and whether anything here has heard of it."""

    known: Annotated[
        bool | None,
        _says(
            "Whether a handler here, a live worker or a job that was found has this kind; null: it"
            " could not be looked up. A kind may be held before its first job comes."
        ),
    ]
    meant: Annotated[str | None, _says("Of one that nothing has: the kind that is spelt like it.")]


class Switches(Model):
    """What is paused and on hold."""

    items: Annotated[list[SwitchAnswer], _says("The pause, and the kinds on hold, by scope.")]


_LIFTED = Answer(
    "What is in force now. `Idempotent-Replayed` says that nothing was stopped, and nothing was"
    " changed.",
    SwitchAnswer,
    (REPLAYED,),
)
_FOR_A_WHILE = Example("For ten minutes.", json={"reason": "the provider is down", "duration": 600})


@bp.get("/switches")
@permits(Permission.READ)
@contract(
    Part.QUEUE,
    {200: Answer("What is paused and on hold.", Switches)},
    examples=(Example("Does anything stand still on purpose?"),),
)
def index() -> Response:
    """Say whether the queue is paused and which kinds are on hold, by whom and why."""
    session = db.session()
    queries.bound_reads(session)
    latest = control.in_force(session).latest
    return json_answer(
        {"items": [_told(scope, latest[scope]) for scope in sorted(latest) if latest[scope].stops]}
    )


@bp.post("/queue/pause")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: Answer("What is in force now.", StopAnswer)},
    body=Body(StopBody),
    more="Within two seconds nothing new starts; what runs finishes. A pause of a paused queue"
    " replaces its reason and its time, so that a short one ends a long one: `replaced` says so.",
    examples=(_FOR_A_WHILE,),
)
def pause() -> Response:
    """Pause the queue."""
    return json_answer(_stop(control.pause, QUEUE))


@bp.post("/queue/resume")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _LIFTED},
    body=Body(ReasonBody, required=False),
    more="Kinds on hold stay on hold.",
    examples=(Example("Without a reason."),),
)
def resume() -> Response:
    """Resume the queue."""
    return _lift(control.resume, QUEUE, reason=read_reason())


@bp.post("/kinds/<kind>/hold")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: Answer("What is in force now.", HoldAnswer)},
    body=Body(StopBody),
    refuses=(KindNotFound,),
    more="Within two seconds nothing of it starts; what runs finishes. Its waiting jobs are moved"
    " to `held` in batches, new ones follow; they keep their place. A kind that nothing here"
    " knows may be held as well: `known` says so, and `meant` which one is spelt like it.",
    examples=(_FOR_A_WHILE,),
)
def hold(kind: str) -> Response:
    """Put a kind on hold."""
    told = _stop(control.hold_kind, scope_of(_known(kind)), kind)
    known = is_known(kind)
    return json_answer({**told, "known": known, "meant": None if known else alike(kind)})


@bp.post("/kinds/<kind>/unhold")
@permits(Permission.ACT)
@contract(
    Part.ACT,
    {200: _LIFTED},
    body=Body(UnholdBody, required=False),
    refuses=(KindNotFound,),
    more="Workers bring its jobs back in batches. Spread, each becomes due at a moment of its own"
    " within that time; one that is due later anyway keeps its own.",
    examples=(Example("Over ten minutes.", json={"spread": 600}),),
)
def unhold(kind: str) -> Response:
    """Lift the hold on a kind."""
    asked = read_optional(UnholdBody)
    how = {"reason": asked.reason, "spread_s": asked.spread or 0.0}
    return _lift(control.unhold_kind, scope_of(_known(kind)), kind, **how)


def _known(kind: str) -> str:
    if not KIND.fullmatch(kind):
        raise KindNotFound(f"no kind can be called '{printable(kind[:100])}'")
    return kind


def _stop(write: Callable[..., None], scope: str, *of: str) -> dict[str, Any]:
    asked, session = read_model(StopBody), _turn()
    before = control.in_force(session).stop_of(scope)
    write(session, *of, reason=asked.reason, for_s=asked.duration, **_by())
    return {**_done(session, scope), "replaced": before and _told(scope, before)}


def _lift(write: Callable[..., None], scope: str, *of: str, **how: Any) -> Response:
    session = _turn()
    if control.in_force(session).stop_of(scope) is None:
        return json_answer(_done(session, scope), 200, {"Idempotent-Replayed": "true"})
    write(session, *of, **how, **_by())
    return json_answer(_done(session, scope))


def _turn() -> Session:
    """A session in which nobody else writes a switch; nobody is waited for longer than a read."""
    session: Session = db.session()
    queries.bound_reads(session)
    control.take_turns(session)
    return session


def _by() -> dict[str, str]:
    return {"actor": current_principal().actor, "via": "api"}


def _done(session: Session, scope: str) -> dict[str, Any]:
    told = _told(scope, control.in_force(session).latest.get(scope))
    session.commit()
    judgement.shared(this_app()).forget()
    return told


def _told(scope: str, switch: Switch | None) -> dict[str, Any]:
    return {
        "scope": scope,
        "stopped": switch is not None and switch.stops,
        "event": switch and switch.event,
        "by": switch and switch.actor,
        "since": switch and instant(switch.at),
        "reason": switch and switch.reason,
        "until": switch and switch.until and instant(switch.until),
        "spread": switch.spread_s if switch else 0.0,
    }
