"""Who is at work: every worker that is known of, and one of them with what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flask import Flask, Response, current_app, request, url_for
from sqlalchemy.orm import Session

from queueapp.auth import Permission, permits
from queueapp.console.answers import answer, timer_life_s
from queueapp.console.blueprint import bp
from queueapp.console.readings import Reading, bounded, glance_at, tried
from queueapp.console.unread import problems_of
from queueapp.errors import BadRequest
from queueapp.extensions import db
from queueapp.jobs import draining, queries, workers
from queueapp.jobs.draining import Drain
from queueapp.jobs.why.words import span
from queueapp.jobs.workers import Attendance, Roll, State
from queueapp.roll import read_roll
from queueapp.shared import Shared
from queueapp.shared_readings import share_bounded

# Those that are only history: the latest of them.
GONE_SHOWN = 20
# The stale ones are first, so what is left out is well.
HERE_SHOWN = 300
KINDS_SHOWN = 30
TONES = {State.LIVE: "good", State.SILENT: "bad", State.UNCONNECTED: "bad",
         State.UNKNOWN: "careful"}  # fmt: skip
ICONS = {State.LIVE: "succeeded", State.SILENT: "failed", State.UNCONNECTED: "failed",
         State.UNKNOWN: "scheduled", State.STOPPED: "cancelled"}  # fmt: skip


def init_app(app: Flask) -> None:
    """Let ``app`` share the roll."""
    app.extensions["queue_roll"] = share_bounded(app, read_roll)


def shared_roll() -> Shared[Roll]:
    """The roll that all of the process share."""
    found: Shared[Roll] = current_app.extensions["queue_roll"]
    return found


@bp.get("/workers")
@permits(Permission.READ)
def workers_page() -> Response:
    """Show every worker, the stale ones first."""
    roll, now = _roll(db.session())
    problems = problems_of(request.args)
    mark = repr(_told(roll.value) if roll.value else roll.reason)
    return answer(
        "workers",
        as_of=now,
        mark=mark,
        context=lambda: {"problems": problems, **_of_all(roll, now)},
        is_shared=True,
    )


def _told(roll: Roll) -> tuple[Any, ...]:
    """All that the page shows; who is gone, time alone decides."""
    gone = [one.is_gone(roll.now) for one in roll.workers]
    return (roll.workers, gone, roll.connections.blind, roll.workers_cut, roll.running_cut)


@bp.get("/workers/<path:name>")
@permits(Permission.READ)
def worker(name: str) -> Response:
    """Show one worker: what it holds, and how its last attempts ended."""
    roll, now = _roll(db.session())
    found = roll.value.known(name) if roll.value else None
    held = glance_at(("worker", name), lambda: tried(bounded(), workers.held_by, name), every_s=5.0)
    # How its last attempts ended is not read for the mark.
    mark = repr((found, roll.reason, held, int(now.timestamp()) // 10))
    return answer(
        "worker",
        as_of=now,
        mark=mark,
        context=lambda: _of_one(bounded(), name, roll, held, now),
        is_shared=True,
    )


def worker_asked_for(given: Mapping[str, str]) -> str:
    """The name in an address or a form. Raises BadRequest for what no worker is called."""
    name = given.get("worker", "")
    if not name or len(name) > workers.LONGEST_NAME or "\x00" in name:
        raise BadRequest("the address does not name a worker: open the page of the worker again")
    return name


def story_of(one: Attendance, now: datetime) -> str:
    """What is known of a worker, in a sentence."""
    return f"{_heard(one, now)}{_connected(one)}"


def _roll(session: Session) -> tuple[Reading[Roll], datetime]:
    """Who is there, read once for all tabs, and the instant of that."""
    snapshot = shared_roll().get(life_s=timer_life_s())
    roll = snapshot.present
    if roll is None:
        return Reading(None, snapshot.why_not), queries.database_now(session)
    return Reading(roll), roll.now


def _of_all(roll: Reading[Roll], now: datetime) -> Mapping[str, Any]:
    known = roll.value.workers if roll.value else ()
    gone = [one for one in known if one.is_gone(now)]
    here = [one for one in known if not one.is_gone(now)]
    live = [one for one in here if one.state is State.LIVE]
    return {
        "roll": roll,
        "here": here[:HERE_SHOWN],
        "left_out": len(here[HERE_SHOWN:]),
        "live": live,
        "slots": sum(one.slots for one in live),
        "busy": sum(one.holding.started for one in live if one.holding and not one.drains),
        "draining": sum(one.drains for one in live),
        "stale": [one for one in here if one.is_dead],
        "gone": sorted(gone, key=lambda one: one.seen_at or now, reverse=True)[:GONE_SHOWN],
        "gone_count": len(gone),
        **_words(),
    }


def _of_one(
    session: Session, name: str, roll: Reading[Roll], held: Reading[Any], now: datetime
) -> Mapping[str, Any]:
    found = roll.value.named(name) if roll.value else None
    return {
        "worker_name": name,
        # No address of the API names one with a slash in it.
        "worker_json": None if "/" in name else url_for("api_workers.show", worker=name),
        "roll": roll,
        "worker": found,
        "story": story_of(found, now) if found else "",
        "drain": _drain(session, found),
        "held": held,
        "held_cut": held.value is not None and len(held.value) >= workers.MOST_HELD,
        "results": tried(session, workers.results_of, name),
        "scan_limit": queries.SCAN_LIMIT,
        "kinds_shown": KINDS_SHOWN,
        **_words(),
    }


def _drain(session: Session, found: Attendance | None) -> Reading[Drain | None]:
    """Who has asked it to drain, if its signs say that it does."""
    if found is None or not found.drains:
        return Reading(None)
    return tried(session, draining.asked, found.name)


def _words() -> dict[str, Any]:
    return {
        "tones": TONES,
        "icons": ICONS,
        "live_s": int(workers.LIVE_S),
        "most_running": workers.MOST_RUNNING,
        "most_workers": workers.MOST_WORKERS,
    }


def _heard(one: Attendance, now: datetime) -> str:
    if one.seen_at is None:
        return "It holds jobs, and no sign of it is in the ledger since yesterday"
    ago = span((now - one.seen_at).total_seconds())
    if one.state is State.STOPPED:
        stopped = span((now - one.stopped_at).total_seconds()) if one.stopped_at else ago
        return f"It ended {stopped} ago: {one.stopped_for or 'it did not say why'}"
    where = " over HTTP" if one.is_elsewhere else ""
    return f"It was last heard of{where} {ago} ago; a live one signs once a minute"


def _connected(one: Attendance) -> str:
    if one.is_elsewhere:
        return ". Every program with this token goes by this name."
    if one.connections is None:
        return "; whether it is connected to the database is unknown."
    if one.connections:
        are = "connection of it is" if one.connections == 1 else "connections of it are"
        return f"; {one.connections} {are} open in the database."
    return "; no connection of it is open in the database."
