"""Move one waiting job in the line: asked first, with where it stands now beside each field."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from flask import Response, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import Permission, permits
from queueapp.console import back, in_line, marks
from queueapp.console.actions import REASON_LENGTH, done_with, how_it_is_done
from queueapp.console.appearance import buttons_of, shown_status
from queueapp.console.blueprint import bp
from queueapp.console.forms import FRESH, Form, Unfit, refilled, shown
from queueapp.console.outcomes import Done
from queueapp.extensions import db
from queueapp.jobs import queries, transitions
from queueapp.jobs.seen import Seen


@bp.get("/jobs/<int:job_id>/reschedule")
@permits(Permission.ACT)
def ask_reschedule(job_id: int) -> Response:
    """Ask when a waiting job is to be due, and at which priority."""
    return _ask(job_id)


@bp.post("/jobs/<int:job_id>/reschedule")
@permits(Permission.ACT)
def reschedule(job_id: int) -> AnyResponse:
    """Move the job to where the form says; one that stands there already is left alone.

    One that has moved on since it was asked about is an error.
    """
    session = db.session()
    try:
        how = {**_place(), "only_if_changed": True, **how_it_is_done()}
    except Unfit as error:
        return _ask(job_id, refilled(error))
    how["seen"] = marks.seen([job_id])
    moved = transitions.one_unless_there(transitions.reschedule, session, job_id, **how)
    session.commit()
    verb = "due-at-once" if moved and _has_passed(how["available_at"]) else "reschedule"
    done = Done.of(verb, [moved] if moved else [], asked_for=1)
    return done_with(done, url_for(".job", job_id=job_id))


def _has_passed(due: datetime | None) -> bool:
    return due is not None and due <= queries.database_now(db.session())


def _ask(job_id: int, form: Form = FRESH) -> Response:
    session = db.session()
    queries.bound_reads(session)
    now = queries.database_now(session)
    job = queries.get_head(session, job_id)
    wanted = form.value("next") or request.args.get("next") or back.referrer()
    return shown(
        "reschedule",
        form,
        as_of=now,
        job=job,
        mark=marks.written(job_id, Seen.of(job)),
        status=shown_status(job, now),
        is_able="reschedule" in buttons_of(job, now),
        back=back.checked(wanted, url_for(".job", job_id=job_id)),
        reason_length=REASON_LENGTH,
    )


def _place() -> dict[str, Any]:
    """Where in the line the form asks for. Raises Unfit for nowhere and for two places."""
    at, delay_s, priority = in_line.due(), in_line.delay_s(), in_line.priority()
    if at is not None and delay_s is not None:
        raise Unfit("minutes", "give either a time or minutes from now")
    if at is None and delay_s is None and priority is None:
        raise Unfit("due", "say when it is to be due, or its priority")
    return {"available_at": at, "delay_s": delay_s, "priority": priority}
