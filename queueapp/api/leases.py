"""Workers in any language: lease jobs, keep the leases, say how far they are and how they ended.

The same transitions as ``flask work`` uses, fenced by the lease's token. The holder is whoever
makes the request: the ledger's actor, and the job's ``locked_by``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from flask import Blueprint, Flask, Response, current_app, request
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from queueapp.api.contract import Answer, Body, Example, Part, contract
from queueapp.api.describe import json_answer
from queueapp.api.lease_answers import LeasedJobs, RenewedLeases, ReportedProgress, SettledJobs
from queueapp.api.lease_ends import outcome_of
from queueapp.api.lease_schemas import End, Lease, LeaseBody, ProgressBody, RenewBody, SettleBody
from queueapp.api.reading import read_model
from queueapp.api.remote_workers import Presence, Switches
from queueapp.api.waiting import a_place_to_wait, looks
from queueapp.at_once import at_once
from queueapp.auth import Permission, current_principal, permits
from queueapp.auth.limits import refuse
from queueapp.config import Settings
from queueapp.connections.numbers import loads
from queueapp.errors import BeyondLimit, LeaseLost, TooManyWaiters
from queueapp.jobs import queries, transitions
from queueapp.jobs.autocommit import wake
from queueapp.jobs.backoff import Backoff
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.database import Database
from queueapp.jobs.status import Status
from queueapp.jobs.transitions import Held, Outcome, Progress

LARGEST_SETTLE = 16 * 1024 * 1024

bp = Blueprint("api_leases", __name__, url_prefix="/api/leases")

# Of the examples: stands for that of the lease that was given.
_EXAMPLE = {"id": 1, "token": "0b2d0ac6-0a5c-4c4e-9c2f-3a4d5e6f7a8b"}


def init_app(app: Flask) -> None:
    """Keep what this process knows for the workers."""
    app.extensions["queue_switches"] = Switches()
    app.extensions["queue_presence"] = Presence()


@bp.post("")
@permits(Permission.WORK)
@contract(
    Part.WORK,
    {200: Answer("The jobs that are yours now, or none.", LeasedJobs)},
    body=Body(LeaseBody),
    refuses=(BeyondLimit, TooManyWaiters),
    more="Nothing is leased of a paused queue or a held kind. A lease whose answer you did not get"
    " ends by itself, and the job comes back.",
    examples=(
        Example(
            "One job, for a minute; wait up to 20 seconds for it.",
            json={"kinds": ["demo.echo"], "max": 1, "lease": 60, "wait": 20},
        ),
    ),
)
def lease() -> Response:
    """Lease due jobs of some kinds, or wait for one; a job is whose lease it is."""
    asked = read_model(LeaseBody)
    refuse(current_principal().limits.of_lease(asked.kinds))
    claims = _claim(asked)
    # No thread is kept, and no place taken, by whoever finds something at once.
    if not claims and asked.wait:
        with a_place_to_wait():
            for _ in looks(asked.wait):
                if claims := _claim(asked):
                    break
    return json_answer({"items": [_leased(claim, asked) for claim in claims]})


@bp.post("/renew")
@permits(Permission.WORK)
@contract(
    Part.WORK,
    {200: Answer("What has become of each lease.", RenewedLeases)},
    body=Body(RenewBody),
    refuses=(LeaseLost,),
    more="Every third of a lease, so that two requests may fail.",
    examples=(Example("Another minute.", json={"items": [_EXAMPLE], "lease": 60}),),
)
def renew() -> Response:
    """Keep leases; says which are lost, whose job is to stop, whose time is up."""
    asked = read_model(RenewBody)
    held = [Held(one.id, one.token) for one in asked.items]
    with _database() as database:
        answers = transitions.renew(database, held, _holder(_lease_s(asked.lease)))
        _presence().renews(database, current_principal().actor)
    return _answered(asked.items, {token: {"outcome": said} for token, said in answers.items()})


@bp.post("/progress")
@permits(Permission.WORK)
@contract(
    Part.WORK,
    {200: Answer("What has become of each report.", ReportedProgress)},
    body=Body(ProgressBody),
    refuses=(LeaseLost,),
    examples=(
        Example(
            "How far it is.", json={"items": [{**_EXAMPLE, "percent": 40, "note": "page 2 of 5"}]}
        ),
    ),
)
def progress() -> Response:
    """Say how far jobs are, at most once a second each."""
    asked = read_model(ProgressBody)
    reports = [Progress(one.id, one.token, one.percent, one.note) for one in asked.items]
    with _database() as database:
        written = transitions.write_progress(database, reports)
        missed = [(one.id, one.token) for one in asked.items if one.token not in written]
        standings = queries.standings_of(database, missed) if missed else {}
    said = dict.fromkeys(written, "accepted")
    said |= {token: "busy" if one.is_held else "lost" for token, one in standings.items()}
    return _answered(asked.items, {token: {"outcome": one} for token, one in said.items()})


@bp.post("/settle")
@permits(Permission.WORK)
@contract(
    Part.WORK,
    {200: Answer("What has become of each job.", SettledJobs)},
    body=Body(SettleBody),
    refuses=(LeaseLost,),
    more="Send it again after a time-out or a 503: what was written before is a `repeat`.",
    examples=(
        Example(
            "It is done.", json={"items": [{**_EXAMPLE, "verb": "succeed", "result": {"pages": 5}}]}
        ),
        Example(
            "It failed, and may be tried again.",
            json={
                "items": [
                    {
                        **_EXAMPLE,
                        "verb": "fail",
                        "error_class": "Timeout",
                        "error_message": "no answer",
                        "retry_after": 600,
                    }
                ]
            },
        ),
    ),
)
def settle() -> Response:
    """Say how jobs ended: succeed, fail, defer or release; each is answered by itself."""
    # Results are large, and of any kind: none is refused that could be left out instead.
    request.max_content_length = LARGEST_SETTLE
    asked = read_model(SettleBody, any_number=True)
    with _database() as database:
        answers = _settled(database, asked.items)
    return _answered(asked.items, answers)


# Leasing


def _claim(asked: LeaseBody) -> Sequence[Claim]:
    lease_s, actor = _lease_s(asked.lease), current_principal().actor
    with _database() as database:
        switches: Switches = current_app.extensions["queue_switches"]
        controls = switches.now(database)
        _presence().asks(database, actor, asked.kinds, slots=asked.max, lease_s=lease_s)
        kinds = tuple(kind for kind in asked.kinds if kind not in controls.held_kinds)
        if controls.pause or not kinds:
            return []
        return transitions.exchange(database, [], _holder(lease_s, kinds), slots=asked.max).claims


def _leased(claim: Claim, asked: LeaseBody) -> dict[str, Any]:
    settings = _settings()
    timeout = settings.job_timeout if claim.timeout_s is None else claim.timeout_s
    lease_s = _lease_s(asked.lease)
    return {
        "id": claim.id,
        "token": str(claim.token),
        "kind": claim.kind,
        "payload": loads(claim.payload),
        "priority": claim.priority,
        "attempt": claim.attempt,
        "max_attempts": claim.max_attempts,
        "timeout": timeout,
        "lease": min(lease_s, timeout or lease_s),
    }


def _lease_s(asked: float | None) -> float:
    return _settings().lease if asked is None else asked


def _holder(lease_s: float, kinds: tuple[str, ...] | None = None) -> Holder:
    return Holder(current_principal().actor, lease_s, _settings().job_timeout, only=kinds)


# Settling


def _settled(database: Database, ends: Sequence[End]) -> dict[UUID, dict[str, Any]]:
    """What has become of each: whether it was accepted, and the status that its job has."""
    actor, settings = current_principal().actor, _settings()
    limits = Backoff(settings.backoff_base, settings.backoff_cap, settings.max_handbacks)
    standings = queries.standings_of(database, [(one.id, one.token) for one in ends])
    outcomes = {one.token: outcome_of(one, standings[one.token], limits) for one in ends}
    held = [outcomes[token] for token, standing in standings.items() if standing.is_held]
    accepted = transitions.settle(database, held, actor=actor) if held else {}
    if any(_returned(outcomes[token], status) for token, status in accepted.items()):
        wake(database)
    left = [outcome for token, outcome in outcomes.items() if token not in accepted]
    said = transitions.explain(database, left, actor=actor) if left else {}
    told = {token: {"outcome": "accepted", "status": one} for token, one in accepted.items()}
    for token, one in said.items():
        known = one in ("busy", "lost")
        told[token] = {"outcome": one} if known else {"outcome": "repeat", "status": one}
    return told


def _returned(outcome: Outcome, status: str) -> bool:
    """Whether the job is back in the queue for somebody else to run at once."""
    return status == Status.QUEUED and not outcome.delay_s


# What all of them share


@contextmanager
def _database() -> Iterator[Database]:
    """Where each statement is committed by itself; a connection that failed is not used again."""
    with at_once() as database:
        try:
            yield database
        except DBAPIError as error:
            if isinstance(database, Connection) and not database.invalidated:
                database.invalidate(error)
            raise


def _none_of(number: int) -> str:
    return "the lease is not" if number == 1 else f"none of the {number} leases is"


def _answered(items: Iterable[Lease], answers: dict[UUID, dict[str, Any]]) -> Response:
    """Answer one by one, in the order of the request; 409 when not one lease is held any more."""
    told = [{"id": item.id, **answers[item.token]} for item in items]
    if all(one["outcome"] == "lost" for one in told):
        raise LeaseLost(
            f"{_none_of(len(told))} yours any more: stop, and drop what you have",
            items=told,
        )
    return json_answer({"items": told})


def _settings() -> Settings:
    settings: Settings = current_app.extensions["queue_settings"]
    return settings


def _presence() -> Presence:
    presence: Presence = current_app.extensions["queue_presence"]
    return presence
