"""The log of everything that happened, newest first, as it happens."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Response, redirect, request, url_for
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as AnyResponse

from queueapp.api.describe import instant
from queueapp.api.export import CSV, NDJSON, Form, Rows, Seen, read_pages, send
from queueapp.auth import Permission, permits
from queueapp.console import preferences
from queueapp.console.answers import answer, in_history, wants_panel
from queueapp.console.as_json import events_as_json
from queueapp.console.blueprint import bp
from queueapp.console.canaries import ends_of
from queueapp.console.criteria import has_empty_fields, read_place, unread_place
from queueapp.console.forms import Problem
from queueapp.console.instants import (
    ENDS,
    is_moving,
    nothing_between,
    span_of,
    write_canonically,
)
from queueapp.console.readings import Reading, bounded, pulse_of, tried
from queueapp.console.unread import problems_of
from queueapp.errors import BadRequest
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import Cursor, EventFilter, EventPage
from queueapp.jobs.queries.bounds import LARGEST_ID
from queueapp.jobs.status import CONTROL_EVENTS, Event

ROWS = 100
FIELDS = ("event", "job", "kind", "actor", *ENDS)
# The lines of one page of a file.
EXPORTED = 500
COLUMNS = (
    "id", "job_id", "kind", "scope", "event", "from_status", "to_status", "attempt", "actor",
    "reason", "created_at",
)  # fmt: skip
JOB_EVENTS = tuple(event for event in Event if event not in CONTROL_EVENTS)


@dataclass(frozen=True)
class Criteria:
    """The filter of the log as it stands in the address; see ``criteria.Criteria``."""

    given: dict[str, str]
    where: EventFilter
    problems: tuple[str, ...]
    is_written_otherwise: bool
    is_moving: bool

    def value(self, name: str) -> str:
        """What was asked for in a field, or nothing."""
        return self.given.get(name, "")

    def url(self, endpoint: str = "console.events", **changes: Any) -> str:
        """The address of the same log with ``changes``."""
        merged = {**self.given, **changes}
        return url_for(endpoint, **{n: v for n, v in merged.items() if v})


@bp.get("/events")
@permits(Permission.READ)
def events() -> AnyResponse:
    """Show the log that matches the address."""
    pulse = pulse_of(every_s=2.0)
    criteria = _read(request.args, pulse.now)
    before = read_place(request.args, "before", Cursor.parse)
    lost = unread_place(request.args, {"before": before})
    if criteria.is_written_otherwise and not wants_panel() and not lost:
        return redirect(criteria.url(before=before))
    response = answer(
        "events",
        as_of=pulse.now,
        # Lines leave a span that goes along with the clock, though nothing happens.
        mark=pulse.mark + (pulse.now.isoformat() if criteria.is_moving else ""),
        context=lambda: {"lost": lost, **_context(bounded(), criteria, before)},
        is_shared=True,
    )
    return in_history(response, criteria.url)


@bp.get("/events.csv")
@permits(Permission.READ)
def events_csv() -> Response:
    """The whole log behind the filter, for spreadsheets."""
    return _export(CSV)


@bp.get("/events.ndjson")
@permits(Permission.READ)
def events_ndjson() -> Response:
    """The whole log behind the filter, for programs: a line of it a line."""
    return _export(NDJSON)


def _export(form: Form) -> Response:
    with Session(db.engine) as session:
        now = queries.database_now(session)
    criteria = _read(request.args, now)
    if criteria.problems:
        raise BadRequest(criteria.problems[0])
    return send(form, "events", COLUMNS, _pages_of(criteria.where))


def _pages_of(where: EventFilter) -> Generator[Rows, None, None]:
    """The lines of a filter without their data, a page at a time; any of them may be empty."""

    def look(session: Session, before: Cursor | None) -> Seen[Cursor]:
        page = queries.list_events(session, where, before=before, limit=EXPORTED)
        return [_written(row) for row in page.rows], page.older

    return read_pages(db.engine, look)


def _written(row: Any) -> dict[str, Any]:
    line = {name: getattr(row, name) for name in COLUMNS}
    return {**line, "created_at": instant(row.created_at)}


def _context(session: Session, criteria: Criteria, before: Cursor | None) -> Mapping[str, Any]:
    page: Reading[EventPage] = Reading(EventPage([], None))
    if not criteria.problems:
        page = tried(session, queries.list_events, criteria.where, before=before, limit=ROWS)
    rows = page.value.rows if page.value else ()
    return {
        "criteria": criteria,
        "page": page,
        "rows": rows,
        "canaries": ends_of(session, rows),
        "first_page": before is None,
        "as_json": events_as_json(criteria.where, is_empty=not rows),
        "job_events": JOB_EVENTS,
        "control_events": CONTROL_EVENTS,
        "scan_limit": queries.SCAN_LIMIT,
        "files": [
            (form.name.upper(), criteria.url(f"console.events_{form.name}"))
            for form in (CSV, NDJSON)
        ],
    }


def _read(args: MultiDict[str, str], now: datetime) -> Criteria:
    given = {name: value for name in FIELDS if (value := args.get(name, "").strip())}
    problems = problems_of(args, FIELDS, places=("before",))
    if "event" in given and given["event"] not in set(Event):
        problems.append(Problem(f"There is no event “{given['event'][:100]}”.", "event"))
    job = given.get("job", "1")
    if not (job.isascii() and job.isdigit() and len(job) < 20 and 0 < int(job) <= LARGEST_ID):
        said = f"“{job[:100]}” is no job id: they are whole numbers from 1."
        problems.append(Problem(said, "job"))
    problems += [
        Problem(f"No event has such a {name}.", name)
        for name in FIELDS
        if "\x00" in given.get(name, "")
    ]
    asked, zone = dict(given), preferences.present().tz
    problems += write_canonically(given, zone)
    if not problems and (nothing := nothing_between(span_of(given, now), zone)):
        problems.append(nothing)
    where = EventFilter() if problems else _filter(given, now)
    otherwise = given != asked or has_empty_fields(args)
    return Criteria(given, where, tuple(problems), otherwise, is_moving(given))


def _filter(given: dict[str, str], now: datetime) -> EventFilter:
    return EventFilter(
        event=Event(given["event"]) if "event" in given else None,
        job_id=int(given["job"]) if "job" in given else None,
        kind=given.get("kind"),
        actor=given.get("actor"),
        created=span_of(given, now),
    )
