"""Pause and resume the queue, hold a kind and lift the hold: asked first, with what will happen.

What is answered concerns the state that the question showed. If somebody has changed it in between,
nothing is done, and the answer says what they did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from flask import Response, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import Permission, permits
from queueapp.console import back, banner
from queueapp.console.actions import REASON_LENGTH, done_with, how_it_is_done
from queueapp.console.anew import read_anew
from queueapp.console.blueprint import bp
from queueapp.console.forms import FRESH, Form, Unfit, refilled, shown
from queueapp.console.kinds import glance_at, known_kind
from queueapp.console.outcomes import Switched
from queueapp.console.readings import tried
from queueapp.errors import BadRequest, PageNotFound, QueueError
from queueapp.extensions import db
from queueapp.jobs import control, queries
from queueapp.jobs.control import QUEUE, Switch, scope_of
from queueapp.jobs.queries.held import Later, held_later
from queueapp.jobs.status import Event
from queueapp.jobs.why.words import because, span

STOPPING = ("pause", "hold")
OF_KIND = ("hold", "unhold")
# What the question offers, in minutes.
DURATIONS = {10: "10 minutes", 30: "30 minutes", 60: "1 hour", 240: "4 hours", 720: "12 hours",
             1440: "1 day", 10_080: "7 days"}  # fmt: skip
SPREADS = (1, 5, 10, 30, 60, 240)
LONGEST_MINUTES = 30 * 1440
_ID = re.compile(r"[0-9]{1,19}", re.ASCII)
_MINUTES = re.compile(r"[0-9]{1,6}", re.ASCII)
_WRITE: dict[str, Callable[..., None]] = {
    "pause": control.pause, "resume": control.resume,
    "hold": control.hold_kind, "unhold": control.unhold_kind,
}  # fmt: skip
_WORDS = {
    Event.QUEUE_PAUSED: "paused", Event.QUEUE_RESUMED: "resumed",
    Event.KIND_HELD: "put on hold", Event.KIND_UNHELD: "taken off hold",
}  # fmt: skip


class SwitchMoved(QueueError):
    """The pause or hold is not the one that the question showed."""

    code = "switch_moved"
    status = 409
    title = "Somebody was faster"


@bp.get("/pause")
@permits(Permission.ACT)
def ask_pause() -> Response:
    """Ask before pausing the queue."""
    return _ask("pause", None)


@bp.post("/pause")
@permits(Permission.ACT)
def pause_queue() -> AnyResponse:
    """Pause the queue."""
    return _switch("pause", None)


@bp.get("/resume")
@permits(Permission.ACT)
def ask_resume() -> Response:
    """Ask before resuming the queue."""
    return _ask("resume", None)


@bp.post("/resume")
@permits(Permission.ACT)
def resume_queue() -> AnyResponse:
    """Resume the queue."""
    return _switch("resume", None)


@bp.get("/kinds/<kind>/<verb>")
@permits(Permission.ACT)
def ask_kind(kind: str, verb: str) -> Response:
    """Ask before holding a kind or lifting its hold."""
    return _ask(_known(verb), known_kind(kind))


@bp.post("/kinds/<kind>/<verb>")
@permits(Permission.ACT)
def switch_kind(kind: str, verb: str) -> AnyResponse:
    """Hold a kind or lift its hold."""
    return _switch(_known(verb), known_kind(kind))


def _known(verb: str) -> str:
    if verb not in OF_KIND:
        raise PageNotFound(f"there is no verb “{verb[:100]}” for kinds: hold and unhold are those")
    return verb


def _ask(verb: str, kind: str | None, form: Form = FRESH) -> Response:
    session = db.session()
    queries.bound_reads(session)
    controls = control.in_force(session)
    latest = controls.latest.get(_scope(kind))
    now = queries.database_now(session)
    wanted = form.value("next") or request.args.get("next") or back.referrer()
    return shown(
        "switch",
        form,
        as_of=now,
        verb=verb,
        kind=kind,
        stops=verb in STOPPING,
        stop=latest if latest and latest.stops else None,
        seen=latest.id if latest else 0,
        address=_address(kind, verb),
        line=None if kind else _line(),
        pause=controls.pause if kind else None,
        **(glance_at(kind) if kind else {}),
        later=_later(session, kind, now) if verb == "unhold" else None,
        durations=DURATIONS,
        spreads=SPREADS,
        spread=request.args.get("spread", ""),
        reason=request.args.get("reason", "")[:REASON_LENGTH],
        back=back.checked(wanted, _default(kind)),
        reason_length=REASON_LENGTH,
    )


def _switch(verb: str, kind: str | None) -> AnyResponse:
    try:
        how = _how(verb)
    except Unfit as error:
        return _ask(verb, kind, refilled(error))
    seen, session = request.form.get("seen", ""), db.session()
    if not _ID.fullmatch(seen):
        raise BadRequest("the form does not say which state it was asked about: open it again")
    # Nobody is waited for longer than a read may take.
    queries.bound_reads(session)
    control.take_turns(session)
    _refuse_if_moved(session, verb, kind, int(seen))
    _WRITE[verb](session, *([kind] if kind else ()), **how)
    session.commit()
    read_anew()
    return done_with(Switched(verb), _default(kind))


def _how(verb: str) -> dict[str, Any]:
    """How the form wants it done. Raises Unfit."""
    how = how_it_is_done()
    if verb in STOPPING:
        minutes = _minutes("minutes")
        how["for_s"] = minutes * 60 if minutes else None
        if not how["reason"]:
            stopped = "the queue" if verb == "pause" else "the kind"
            raise Unfit("reason", f"say why: whoever finds {stopped} stopped will want to know")
    if verb == "unhold":
        how["spread_s"] = (_minutes("spread") or 0) * 60
    return how


def _refuse_if_moved(session: Session, verb: str, kind: str | None, seen: int) -> None:
    latest = control.in_force(session).latest.get(_scope(kind))
    is_same = (latest.id if latest else 0) == seen
    if is_same and (verb in STOPPING or (latest is not None and latest.stops)):
        return
    now = queries.database_now(session)
    session.rollback()
    said = "nothing was ever paused or on hold"
    if latest:
        ago = span((now - latest.at).total_seconds())
        said = f"it was {_did(latest)} by {latest.actor} {ago} ago{because(latest.reason)}"
    raise SwitchMoved(f"{said}; nothing was changed. Look again")


def _did(switch: Switch) -> str:
    return _WORDS[switch.event]


def _line() -> Any:
    """What waits and what runs, None where it could not be read."""
    facts = banner.present().facts
    return facts.line if facts else None


def _later(session: Session, kind: str | None, now: datetime) -> Later | None:
    """What stays for later when the hold is lifted, as far as that can be read."""
    return tried(session, held_later, kind or "", now).value


def _scope(kind: str | None) -> str:
    return scope_of(kind) if kind else QUEUE


def _address(kind: str | None, verb: str) -> str:
    if kind is None:
        return url_for(f".{verb}_queue")
    return url_for(".switch_kind", kind=kind, verb=verb)


def _default(kind: str | None) -> str:
    return url_for(".kind", kind=kind) if kind else url_for(".now")


def _minutes(name: str) -> int | None:
    """So many minutes, None for none. Raises Unfit for what is no such number."""
    text = request.form.get(name, "").strip()
    if not text:
        return None
    if not _MINUTES.fullmatch(text) or int(text) > LONGEST_MINUTES:
        raise Unfit(name, f"this is a whole number of minutes, {LONGEST_MINUTES:,} at most")
    return int(text)
