"""Take back what a dead worker holds: asked first, and only the claims that the asker has seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from flask import Response, request, url_for
from sqlalchemy import Row
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import Permission, permits
from queueapp.console import back, stops
from queueapp.console.actions import REASON_LENGTH, done_by, done_with, how_it_is_done
from queueapp.console.anew import read_anew
from queueapp.console.blueprint import bp
from queueapp.console.criteria import parse_id
from queueapp.console.forms import FRESH, Form, again, shown
from queueapp.console.workers import (
    ICONS,
    TONES,
    story_of,
    worker_asked_for,
)
from queueapp.errors import BadRequest, WorkerIsLive
from queueapp.extensions import db
from queueapp.jobs import queries, transitions, workers
from queueapp.jobs.queries.bounds import LARGEST_ID
from queueapp.jobs.why.words import span
from queueapp.jobs.workers import Attendance, State
from queueapp.roll import read_roll

_CLAIM = re.compile(r"(\d{1,19})@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?\+00:00)", re.ASCII)


@bp.get("/workers/release")
@permits(Permission.ACT)
def ask_release() -> AnyResponse:
    """Ask before taking from ``?worker=`` what it holds, or one ``?job=`` of that."""
    return _ask(worker_asked_for(request.args), FRESH, job_id=_job(request.args))


@bp.post("/workers/release")
@permits(Permission.ACT)
def release() -> AnyResponse:
    """Take the claims that were seen from the worker; newer ones stay with it."""
    name, session = worker_asked_for(request.form), db.session()
    claims = _claims(request.form.getlist("claim"))
    if request.form.get("alive") != "yes":
        try:
            _refuse_if_live(session, name)
        except WorkerIsLive as error:
            return _ask(name, again(error, "alive"), job_id=_job(request.form))
    moved = transitions.release_claims(session, claims, holder=name, **how_it_is_done())
    session.commit()
    read_anew()
    done = done_by(session, "release", moved, asked_for=len(claims))
    return done_with(done, url_for(".workers_page"))


def _ask(name: str, form: Form, *, job_id: int | None) -> Response:
    controls, session = stops.known(), db.session()
    queries.bound_reads(session)
    roll = read_roll(session)
    found = roll.known(name)
    held = _held(session, name, job_id)
    return shown(
        "release",
        form,
        as_of=roll.now,
        worker=found,
        job=job_id,
        story=story_of(found, roll.now),
        held=held,
        stops=stops.Stops.of(controls, {row.kind for row in held}),
        claims=[f"{row.id}@{row.claimed_at.isoformat()}" for row in held],
        ends=_ends(held),
        left=max(found.held - len(held), 0),
        why=_why(found, roll.now),
        back=_back(found, form, job_id),
        reason_length=REASON_LENGTH,
        tones=TONES,
        icons=ICONS,
    )


def _held(session: Session, name: str, job_id: int | None) -> list[Row[Any]]:
    """What it holds, the oldest claims first; of one job that alone."""
    if job_id is None:
        return list(workers.held_by(session, name))
    held = workers.held_by(session, name, limit=workers.MOST_RUNNING)
    return [row for row in held if row.id == job_id]


def _job(given: Mapping[str, str]) -> int | None:
    """The one job that is asked about. Raises BadRequest for what is none."""
    text = given.get("job", "")
    try:
        return parse_id(text) if text else None
    except ValueError:
        raise BadRequest("the id of a job is a whole number above zero") from None


def _back(found: Attendance, form: Form, job_id: int | None) -> str:
    """Where to go on; whom nobody has heard of has no page any more once its jobs are taken."""
    default = url_for(".job", job_id=job_id) if job_id else url_for(".workers_page")
    if found.seen_at is None:
        return default
    wanted = form.value("next") or request.args.get("next") or back.referrer()
    return back.checked(wanted, default)


def _claims(texts: Sequence[str]) -> dict[int, datetime]:
    """When each claim was made, by the id of its job."""
    if len(texts) > workers.MOST_HELD:
        raise BadRequest(f"release at most {workers.MOST_HELD} jobs at once")
    found = [_CLAIM.fullmatch(text) for text in texts]
    try:
        claims = {int(one[1]): datetime.fromisoformat(one[2]) for one in found if one}
    except ValueError:
        claims = {}
    if len(claims) < len(texts) or not all(0 < job_id <= LARGEST_ID for job_id in claims):
        raise BadRequest("the form does not say which jobs it showed: open it again")
    return claims


def _refuse_if_live(session: Session, name: str) -> None:
    queries.bound_reads(session)
    found = read_roll(session).named(name)
    # The reading's bounds are not those of the move.
    session.rollback()
    if found and not found.is_dead:
        raise WorkerIsLive(
            "nothing was released: the worker lives, as far as is known, so it would go on with its"
            " jobs while others begin them. Cancel its jobs, or stop it; or tick this and try"
            " again",
        )


def _ends(held: Sequence[Row[Any]]) -> dict[str, int]:
    """What becomes of the jobs: ``cancelled`` and ``failed``; the others wait again."""
    cancelled = sum(1 for row in held if row.cancel_requested_at)
    spent = sum(
        1 for row in held if not row.cancel_requested_at and row.attempts >= row.max_attempts
    )
    return {"cancelled": cancelled, "failed": spent, "queued": len(held) - cancelled - spent}


def _why(one: Attendance, now: datetime) -> str:
    """What stands in the field for the reason until somebody writes another one."""
    if one.state is State.STOPPED:
        return "the worker has ended"
    if one.state is State.SILENT and one.seen_at:
        return f"the worker has been silent for {span((now - one.seen_at).total_seconds())}"
    if one.state is State.UNCONNECTED:
        return "the worker has lost its connections"
    return ""
