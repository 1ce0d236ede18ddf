"""What people did: who, what, to how many jobs, why; newest first, and as files."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
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
from queueapp.console.blueprint import bp
from queueapp.console.canaries import ends_of
from queueapp.console.criteria import read_place, unread_place
from queueapp.console.forms import Problem
from queueapp.console.glossary import NAMES
from queueapp.console.instants import nothing_between, span_of, write_canonically
from queueapp.console.readings import Reading, tried
from queueapp.console.unread import problems_of
from queueapp.errors import BadRequest
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import Act, ActFilter, ActPage, Cursor, Did
from queueapp.jobs.queries.acts import TO_JOBS, TO_QUEUE

ROWS = 50
FIELDS = ("actor", "verb", "since", "until")
# All that is not done to single jobs: found at once, however old.
QUEUE = "queue"
# The acts of one page of a file, and how long one look for them takes.
EXPORTED, EXPORT_LOOK_S = 500, 1.0
COLUMNS = (
    "id", "at", "actor", "verb", "event", "jobs", "job_id", "kind", "scope", "planned", "moved",
    "reason", "via", "request_id",
)  # fmt: skip


@dataclass(frozen=True)
class Criteria:
    """The filter of the trail as it stands in the address; see ``criteria.Criteria``.

    ``is_written_otherwise``: the address has empty fields, or times by somebody's own clock.
    """

    given: dict[str, str]
    problems: tuple[str, ...]
    is_written_otherwise: bool

    def value(self, name: str) -> str:
        """What was asked for in a field, or nothing."""
        return self.given.get(name, "")

    def url(self, endpoint: str = "console.audit", **changes: Any) -> str:
        """The address of the same acts with ``changes``."""
        merged = {**self.given, **changes}
        return url_for(endpoint, **{name: value for name, value in merged.items() if value})

    def at(self, now: datetime) -> Criteria:
        """The same with what is wrong with it at an instant."""
        if self.problems:
            return self
        problem = nothing_between(span_of(self.given, now), preferences.present().tz)
        return self if problem is None else replace(self, problems=(problem,))

    def where(self, now: datetime) -> ActFilter:
        """The filter at an instant."""
        dids, span = _dids(self.value("verb")), span_of(self.given, now)
        return ActFilter(actor=self.given.get("actor"), dids=dids, since=span.start, until=span.end)


@bp.get("/audit")
@permits(Permission.READ)
def audit() -> AnyResponse:
    """Show what people did, as the address narrows it."""
    criteria = read_criteria(request.args, preferences.present().tz)
    before = read_place(request.args, "before", Cursor.parse)
    lost = unread_place(request.args, {"before": before})
    if criteria.is_written_otherwise and not wants_panel() and not lost:
        return redirect(criteria.url(before=before))
    session = db.session()
    queries.bound_reads(session)
    now = queries.database_now(session)
    criteria = criteria.at(now)
    response = answer(
        "audit",
        as_of=now,
        mark=now.isoformat(),
        context=lambda: {"lost": lost, **_context(session, criteria, before, now)},
    )
    return in_history(response, criteria.url)


@bp.get("/audit.csv")
@permits(Permission.READ)
def audit_csv() -> Response:
    """The whole trail behind the filter, for spreadsheets."""
    return _export(CSV)


@bp.get("/audit.ndjson")
@permits(Permission.READ)
def audit_ndjson() -> Response:
    """The whole trail behind the filter, for programs: an act a line."""
    return _export(NDJSON)


def read_criteria(args: MultiDict[str, str], zone: tzinfo) -> Criteria:
    """Read the filter from an address; ``zone``: of times without an offset."""
    given = {name: value for name in FIELDS if (value := args.get(name, "").strip())}
    problems = problems_of(args, FIELDS, places=("before",))
    if given.get("verb", QUEUE) not in (QUEUE, *Did):
        problems.append(Problem(f"There is no verb “{given['verb'][:100]}”.", "verb"))
    if "\x00" in given.get("actor", ""):
        problems.append(Problem("Nobody is called that.", "actor"))
    otherwise = any(not value.strip() for value in args.values())
    asked = dict(given)
    problems += write_canonically(given, zone)
    return Criteria(given, tuple(problems), otherwise or given != asked)


def _dids(verb: str) -> tuple[Did, ...]:
    if verb == QUEUE:
        return TO_QUEUE
    return (Did(verb),) if verb else tuple(Did)


def _context(
    session: Session, criteria: Criteria, before: Cursor | None, now: datetime
) -> Mapping[str, Any]:
    page: Reading[ActPage] = Reading(ActPage([], None))
    if not criteria.problems:
        page = tried(session, queries.list_acts, criteria.where(now), before=before, limit=ROWS)
    acts = page.value.acts if page.value else ()
    return {
        "criteria": criteria,
        "page": page,
        "acts": acts,
        "canaries": ends_of(session, acts),
        "first_page": before is None,
        "to_jobs": TO_JOBS,
        "to_queue": TO_QUEUE,
        "queue": QUEUE,
        "names": NAMES,
        "files": [
            (form.name.upper(), criteria.url(f"console.audit_{form.name}"))
            for form in (CSV, NDJSON)
        ],
        "scan_limit": queries.SCAN_LIMIT,
        # Nothing that is over changes.
        "still": True,
    }


def _export(form: Form) -> Response:
    criteria = read_criteria(request.args, preferences.present().tz)
    with Session(db.engine) as session:
        now = queries.database_now(session)
    criteria = criteria.at(now)
    if criteria.problems:
        raise BadRequest(criteria.problems[0])
    return send(form, "audit", COLUMNS, _pages_of(criteria.where(now)))


def _pages_of(where: ActFilter) -> Generator[Rows, None, None]:
    """The acts of a filter, a page at a time; any of them may be empty."""

    def look(session: Session, before: Cursor | None) -> Seen[Cursor]:
        page = queries.list_acts(
            session, where, before=before, limit=EXPORTED, seconds=EXPORT_LOOK_S
        )
        return [_written(act) for act in page.acts], page.older

    return read_pages(db.engine, look)


def _written(act: Act) -> dict[str, Any]:
    return {
        **{name: getattr(act, name) for name in COLUMNS if name not in ("at", "verb", "event")},
        "at": instant(act.at),
        "verb": act.did.value,
        "event": act.event.value,
    }
