"""One job: where it stands, its attempts on a time line, its error, its result, all its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from flask import Response, current_app
from sqlalchemy.orm import Session

from queueapp.auth import Permission, permits
from queueapp.console import banner
from queueapp.console.alike import same_payload
from queueapp.console.answers import answer, timer_life_s
from queueapp.console.appearance import buttons_of, moment_of, shown_status
from queueapp.console.attempts import WIDTH, attempts_of, lines_of
from queueapp.console.blueprint import bp
from queueapp.console.purged import as_purged
from queueapp.console.readings import bounded, glance_at, noticed
from queueapp.console.workers import shared_roll
from queueapp.errors import JobNotFound
from queueapp.jobs import queries
from queueapp.jobs.frames import own_frames
from queueapp.jobs.models import Job
from queueapp.jobs.queries import Bodies, Body
from queueapp.jobs.status import FINAL, Event, Status
from queueapp.jobs.verdict import Finding
from queueapp.jobs.why import why
from queueapp.redaction import MARK, Hidden, for_all_readers, for_reader

EVENTS = 200


@bp.get("/jobs/<int:job_id>")
@permits(Permission.READ)
def job(job_id: int) -> Response:
    """Show one job whole; of one that was purged, by whom and when."""
    try:
        return _show(job_id)
    except JobNotFound as error:
        raise as_purged(bounded(), error) from None


def _show(job_id: int) -> Response:
    pulse = glance_at(("job", job_id), lambda: noticed(queries.pulse_of_job, job_id))
    return answer(
        "job",
        as_of=pulse.now,
        mark=pulse.mark,
        context=lambda: _context(bounded(), job_id, pulse.now),
        is_shared=True,
    )


def _context(session: Session, job_id: int, now: datetime) -> Mapping[str, Any]:
    job = queries.get_head(session, job_id)
    events = queries.latest_events_of(session, job_id, limit=EVENTS + 1)
    # What it is a clone of stands in its first line.
    beginning = queries.events_of(session, job_id, limit=1) if len(events) > EVENTS else []
    is_final = Status(job.status) in FINAL
    found = bodies_of(session, job)
    failure = queries.last_failure(session, job_id) if job.error_class is not None else None
    settings = current_app.extensions["queue_settings"]
    asked = {"job_timeout_s": settings.job_timeout, "pooled": settings.pooler}
    return {
        "job": job,
        "status": shown_status(job, now),
        "moment": moment_of(job, now),
        "buttons": buttons_of(job, now),
        "blame": _blame(job),
        "dead_holder": _dead_holder(job),
        "why": None if is_final else why(session, job_id, **asked),
        "is_final": is_final,
        "redacted": MARK,
        "bodies": found,
        "same_payload": same_payload(found.payload, for_all_readers().of(job.kind)),
        "kin": kin_of([*beginning, *events]),
        "failure": failure,
        "frames": own_frames(failure.traceback or "") if failure else [],
        "events": events[-EVENTS:],
        "events_cut": len(events) > EVENTS,
        "lines": lines_of(attempts_of(events[-EVENTS:]), now, job.started_at),
        "line_width": WIDTH,
    }


def _dead_holder(job: Job) -> str | None:
    """Who holds it and lives no more, for all that is known."""
    roll = shared_roll().get(life_s=timer_life_s()).present if job.locked_by else None
    holder = roll.named(job.locked_by or "") if roll else None
    return holder.name if holder and holder.is_dead else None


def _blame(job: Job) -> Finding | None:
    """What the verdict says of this very job; whoever comes from the banner is to find it here."""
    if job.error_class != "LeaseLost":
        return None
    findings = banner.present().verdict.findings
    killers = (one for one in findings if one.rule == "worker_killer")
    found = next((one for one in killers if one.evidence["job_id"] == job.id), None)
    # The look may be from before it ended: what was to be done then is done.
    is_past = Status(job.status) in FINAL and found and found.evidence["status"] != job.status
    return None if is_past else found


@dataclass(frozen=True)
class Kin:
    """``cloned_from``: of which job this one is a clone; ``clones``: those of it, oldest first."""

    cloned_from: int | None
    clones: list[int]


def kin_of(events: Sequence[Any]) -> Kin:
    """What the job's own lines say of that, as far as they are here."""
    told = [(event.event, event.data) for event in events if isinstance(event.data, dict)]
    origins = [_id(data, "cloned_from") for name, data in told if name == Event.ENQUEUED]
    clones = (_id(data, "job") for name, data in told if name == Event.CLONED)
    return Kin(origins[0] if origins else None, [one for one in clones if one])


def _id(data: dict[str, Any], name: str) -> int | None:
    return data[name] if isinstance(data.get(name), int) else None


def bodies_of(session: Session, job: Job) -> Bodies:
    """Payload and result as the reader may see them."""
    hidden, found = for_reader().of(job.kind), queries.bodies_of(session, job.id)
    return Bodies(_shown(found.payload, hidden), _shown(found.result, hidden))


def _shown(body: Body | None, hidden: Hidden) -> Body | None:
    return replace(body, text=hidden.of_text(body.text)) if body else None
