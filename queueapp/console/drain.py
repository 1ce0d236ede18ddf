"""Ask a worker to drain: asked first, with what it holds and what will become of that."""

from __future__ import annotations

from flask import Response, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import Permission, permits
from queueapp.console import back
from queueapp.console.actions import REASON_LENGTH, done_with, how_it_is_done
from queueapp.console.anew import read_anew
from queueapp.console.blueprint import bp
from queueapp.console.forms import FRESH, Form, Unfit, refilled, shown
from queueapp.console.outcomes import Switched
from queueapp.console.workers import (
    ICONS,
    TONES,
    story_of,
    worker_asked_for,
)
from queueapp.errors import CannotDrain
from queueapp.extensions import db
from queueapp.jobs import control, draining, queries
from queueapp.jobs.workers import Attendance, why_not_drained
from queueapp.roll import read_roll


@bp.get("/workers/drain")
@permits(Permission.ACT)
def ask_drain() -> AnyResponse:
    """Ask before ``?worker=`` is asked to drain."""
    return _ask(worker_asked_for(request.args))


@bp.post("/workers/drain")
@permits(Permission.ACT)
def drain() -> AnyResponse:
    """Ask the worker to drain; who was asked before is not asked again."""
    how, session = how_it_is_done(), db.session()
    if not how["reason"]:
        missing = Unfit("reason", "say why: the worker's last line and the ledger have the reason")
        return _ask(worker_asked_for(request.form), refilled(missing))
    queries.bound_reads(session)
    control.take_turns(session)
    found = read_roll(session).known(worker_asked_for(request.form))
    if refusal := why_not_drained(found):
        raise CannotDrain(f"it cannot be asked to drain: {refusal}")
    if draining.asked(session, found.name) is None:
        draining.ask(session, found.name, **how)
    session.commit()
    read_anew()
    return done_with(Switched("drain"), _page(found))


def _ask(name: str, form: Form = FRESH) -> Response:
    session = db.session()
    queries.bound_reads(session)
    roll = read_roll(session)
    found = roll.known(name)
    wanted = form.value("next") or request.args.get("next") or back.referrer()
    return shown(
        "drain",
        form,
        as_of=roll.now,
        worker=found,
        story=story_of(found, roll.now),
        drain=draining.asked(session, found.name),
        refusal=why_not_drained(found),
        back=back.checked(wanted, _page(found)),
        reason_length=REASON_LENGTH,
        tones=TONES,
        icons=ICONS,
    )


def _page(found: Attendance) -> str:
    return url_for(".worker", name=found.name)
