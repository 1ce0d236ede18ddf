"""What people can do to one job or to the ticked ones, and need to say no more than why.

Every verb has a page of its own that asks first. With scripts that page opens in a dialog and the
answer is a notice; without them the answer leads back to the list it came from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from flask import Response, redirect, render_template, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import Permission, current_principal, permits, refuse_unless
from queueapp.console import back, marks, stops
from queueapp.console.appearance import buttons_of, shown_status
from queueapp.console.blueprint import bp
from queueapp.console.criteria import parse_id
from queueapp.console.forms import FRESH, Form, Unfit, refilled, shown
from queueapp.console.losses import dangers_of
from queueapp.console.outcomes import Done, Outcome
from queueapp.console.purged import as_purged
from queueapp.errors import BadRequest, JobNotFound, PageNotFound
from queueapp.extensions import db
from queueapp.jobs import control, operations, queries, transitions
from queueapp.jobs.failure import printable
from queueapp.jobs.operations.verbs import Bulk
from queueapp.jobs.seen import Seen
from queueapp.jobs.status import Status
from queueapp.jobs.transitions import Moved

# What a job is rescheduled to has a form of its own.
VERBS = ("retry", "run-now", "hold", "unhold", "cancel", "purge")
MOST_AT_ONCE = 500
REASON_LENGTH = 500


@bp.get("/jobs/<int:job_id>/<verb>")
@permits(Permission.ACT)
def ask(job_id: int, verb: str) -> AnyResponse:
    """Ask before doing ``verb`` to one job."""
    _known(verb)
    return _ask_one(verb, job_id)


@bp.post("/jobs/<int:job_id>/<verb>")
@permits(Permission.ACT)
def act(job_id: int, verb: str) -> AnyResponse:
    """Do ``verb`` to one job; one that does not allow it, or has moved on, is an error."""
    return _do_one(verb, job_id)


@bp.get("/jobs/<int:job_id>/purge")
@permits(Permission.ADMIN)
def ask_purge(job_id: int) -> AnyResponse:
    """Ask before removing one job for good."""
    return _ask_one("purge", job_id)


@bp.post("/jobs/<int:job_id>/purge")
@permits(Permission.ADMIN)
def purge(job_id: int) -> AnyResponse:
    """Remove one job for good; one that is not over, or has moved on, is an error."""
    try:
        return _do_one("purge", job_id)
    except JobNotFound as error:
        raise as_purged(db.session(), error) from None


@bp.get("/jobs/bulk")
@permits(Permission.ACT)
def ask_many() -> AnyResponse:
    """Ask before doing ``?verb=`` to the ticked jobs."""
    verb = request.args.get("verb", "")
    _known(verb)
    _refuse_beyond_role(verb)
    return _ask(verb, ids_of(request.args.getlist("id")), url_for(".jobs"))


@bp.post("/jobs/bulk")
@permits(Permission.ACT)
def act_on_many() -> AnyResponse:
    """Do the verb to the ticked jobs that allow it and stand as the question said they do.

    The answer says how many did not.
    """
    verb, ids = request.form.get("verb", ""), ids_of(request.form.getlist("id"))
    bulk, left, session = _known(verb), _left(), db.session()
    _refuse_beyond_role(verb)
    seen = marks.seen(ids)
    try:
        how = _how(verb)
    except Unfit as error:
        return _ask(verb, ids, url_for(".jobs"), refilled(error), left=left)
    moved = bulk.move(session, ids, **bulk.how, **how, seen=seen)
    session.commit()
    late = len(ids) - len(moved) if seen else 0
    done = done_by(session, verb, moved, asked_for=len(ids) + left, moved_on=late)
    return done_with(done, url_for(".jobs"))


def _known(verb: str) -> Bulk:
    if verb not in VERBS:
        known = f"{', '.join(VERBS[:-1])} and {VERBS[-1]}"
        what = f"“{verb[:100]}” is none" if verb else "none was chosen"
        raise PageNotFound(f"the buttons for jobs are {known}; {what}")
    return operations.VERBS[verb]


def _refuse_beyond_role(verb: str) -> None:
    if verb in operations.FOR_ADMINS:
        refuse_unless(Permission.ADMIN)


def _do_one(verb: str, job_id: int) -> AnyResponse:
    bulk, session = _known(verb), db.session()
    try:
        how = _how(verb)
    except Unfit as error:
        return _ask_one(verb, job_id, refilled(error))
    # What is due already has nothing to be done to it.
    one = transitions.one_unless_there if verb == "run-now" else transitions.one
    how["seen"] = marks.seen([job_id])
    moved = one(bulk.move, session, job_id, **bulk.how, **how)
    session.commit()
    done = done_by(session, verb, [moved] if moved else [], asked_for=1)
    page = url_for(".job", job_id=job_id)
    is_gone = moved is not None and moved.to_status is None
    return done_with(done, url_for(".jobs"), gone=page) if is_gone else done_with(done, page)


# Where nobody could tell later why nothing moves, or why there is nothing.
_WHY = {
    "hold": "say why: whoever finds the job held will want to know",
    "purge": "say why: the ledger is all that will tell of it",
}


def _how(verb: str) -> dict[str, Any]:
    """Who acts, and why. Raises Unfit without a reason where one is needed."""
    how = how_it_is_done()
    if verb in _WHY and not how["reason"]:
        raise Unfit("reason", _WHY[verb])
    return how


def how_it_is_done() -> dict[str, Any]:
    """Who acts, and the reason of the form, for the ledger."""
    return {"actor": current_principal().actor, "reason": given_reason() or None, "via": "console"}


def given_reason() -> str:
    """The reason in the form, fit to be stored."""
    return printable(request.form.get("reason", "").strip())[:REASON_LENGTH]


def ids_of(texts: Sequence[str]) -> list[int]:
    """The jobs that were ticked, each once. Raises BadRequest."""
    if len(texts) > MOST_AT_ONCE:
        raise BadRequest(f"{MOST_AT_ONCE} jobs at most can be ticked at once")
    try:
        return sorted({parse_id(text) for text in texts})
    except ValueError:
        raise BadRequest("the id of a job is a whole number above zero") from None


def _left() -> int:
    """How many ticked jobs the question already said it would leave alone."""
    text = request.form.get("left", "0")
    if not re.fullmatch("[0-9]{1,3}", text) or int(text) > MOST_AT_ONCE:
        raise BadRequest("the form does not say how many jobs it left alone: open it again")
    return int(text)


def _ask_one(verb: str, job_id: int, form: Form = FRESH) -> Response:
    queries.get_head(db.session(), job_id)
    return _ask(verb, [job_id], url_for(".job", job_id=job_id), form)


def _ask(verb: str, ids: list[int], default: str, form: Form = FRESH, *, left: int = 0) -> Response:
    controls, session = stops.known() if verb in stops.STARTING else None, db.session()
    queries.bound_reads(session)
    now = queries.database_now(session)
    found = queries.heads_of(session, ids)
    able = [job for job in found if verb in buttons_of(job, now)]
    wanted = form.value("next") or request.args.get("next") or back.referrer()
    return shown(
        "confirm",
        form,
        as_of=now,
        verb=verb,
        ids=ids,
        able=able,
        marks={job.id: marks.written(job.id, Seen.of(job)) for job in able},
        unable=[(job, shown_status(job, now)) for job in found if job not in able],
        dangers=dangers_of(session, able) if verb in stops.STARTING else [],
        stops=stops.Stops.of(controls, {job.kind for job in able}),
        missing=len(ids) - len(found),
        held_kinds=sorted({job.kind for job in found if job.held_for == "kind"})[:3],
        left=left + len(ids) - len(able),
        statuses={job.id: shown_status(job, now) for job in found},
        back=back.checked(wanted, default),
        reason_length=REASON_LENGTH,
    )


def done_by(
    session: Session, verb: str, moved: Sequence[Moved], *, asked_for: int, moved_on: int = 0
) -> Done:
    """What a verb came to, and how many of its jobs cannot start as it stands."""
    ids, waits = [one.id for one in moved if one.to_status == Status.QUEUED], 0
    if verb in stops.STARTING and ids:
        queries.bound_reads(session)
        controls = control.in_force(session)
        held = {*controls.held_kinds}
        if controls.pause:
            waits = len(ids)
        elif held:
            waits = sum(job.kind in held for job in queries.heads_of(session, ids))
    return Done.of(verb, moved, asked_for=asked_for, moved_on=moved_on, waits=waits)


def done_with(done: Outcome, default: str, *, gone: str = "") -> AnyResponse:
    """Say what an action came to: as a notice, or on the page that it leads back to.

    ``gone``: the page of a job that has none any more; ``default`` is shown in its place.
    """
    place = back.checked(request.form.get("next", ""), default)
    is_lost = bool(gone) and urlsplit(place).path == gone
    place = default if is_lost else place
    address = f"{place}{'&' if '?' in place else '?'}done={done}"
    if "HX-Request" not in request.headers:
        return redirect(address, 303)
    if is_lost:
        return Response(headers={"HX-Redirect": address})
    body = render_template("fragments/done.html", done=done).strip()
    return Response(body, mimetype="text/html", headers={"HX-Trigger": "queue:changed"})
