"""The jump box: from whatever somebody has in hand to the page about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from flask import Response, redirect, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from queueapp import handlers, judgement
from queueapp.application import this_app
from queueapp.auth import Permission, permits
from queueapp.console import back, places
from queueapp.console.answers import render
from queueapp.console.blueprint import bp
from queueapp.console.failures import shared_failures
from queueapp.console.inventory import shared_kinds
from queueapp.console.kinds import names_of
from queueapp.console.readings import tried
from queueapp.console.workers import shared_roll
from queueapp.errors import OperationNotFound
from queueapp.extensions import db
from queueapp.jobs import operations, queries
from queueapp.jobs.failure import printable
from queueapp.jobs.names import KIND
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.queries.bounds import LARGEST_ID

LONGEST = 300
# Of names that contain what was asked for, so many are shown of each sort.
SHOWN = 10
# Of operations, so many are looked through for the beginning of an id.
NEWEST = 100
_JOB = re.compile(r"(?:job\s*[:#]?\s*|#)?([0-9]{1,19})", re.ASCII | re.IGNORECASE)
_OPERATION = re.compile(r"(?:op(?:eration)?[:\s]\s*)?([0-9a-f]{16})", re.ASCII | re.IGNORECASE)
_CAUSE = re.compile(r"(?:error[:\s]\s*)?([0-9a-f]{16})", re.ASCII | re.IGNORECASE)
# Of either, as far as lists show it; what is only digits is a job.
_BEGINNING = re.compile(
    r"(?:(?:op(?:eration)?|error)[:\s]\s*)?([0-9a-f]{6,15})", re.ASCII | re.IGNORECASE
)
_HOST = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
_PERSON = re.compile(r"(?:user|cli|token):.+")


@dataclass(frozen=True)
class Found:
    """One thing that goes by what was asked for, and where its page is."""

    sort: str
    name: str
    address: str


Finder: TypeAlias = Callable[[Session, str], list[Found]]


@bp.get("/go")
@permits(Permission.READ)
def go() -> AnyResponse:
    """Go to the one thing that is called so; show several; say so where there is none."""
    asked = request.args.get("q", "").strip()
    if not asked:
        return redirect(url_for(".now"))
    found, reasons = _look(db.session(), asked)
    if len(found) == 1 and not reasons:
        return redirect(found[0].address)
    body = render(
        "go",
        panel=False,
        asked=printable(asked),
        found=found,
        reasons=reasons,
        scan_limit=queries.SCAN_LIMIT,
    )
    return Response(body, 200 if found else 404, mimetype="text/html")


def _look(session: Session, asked: str) -> tuple[list[Found], list[str]]:
    """What is called just so; without any, all whose names contain it. And what kept us from it."""
    if len(asked) > LONGEST or "\x00" in asked:
        return [], []
    queries.bound_reads(session)
    reasons: list[str] = []
    for finders in (EXACT, SIMILAR):
        found: list[Found] = []
        for sort, finder in finders.items():
            met = tried(session, finder, asked)
            found += met.value or []
            reasons += [f"{sort}: {met.reason}"] if met.reason else []
            if found and finders is EXACT:
                return found, []
        if found:
            return found, reasons
    return [], reasons


def _page(_session: Session, asked: str) -> list[Found]:
    return [_of_page(one) for one in places.PLACES if one.label.lower() == asked.lower()]


def _page_of_one(_session: Session, asked: str) -> list[Found]:
    """The page that lists things of that name: ``worker``."""
    return [_of_page(one) for one in places.PLACES if one.label.lower() == f"{asked.lower()}s"]


def _address(_session: Session, asked: str) -> list[Found]:
    """An address of this console, with or without the host and the prefix that it is under."""
    path, prefix = _HOST.sub("", asked) if _is_here(asked) else asked, request.script_root
    if not path.startswith("/"):
        return []
    is_below = re.split("[?#]", path)[0] == prefix or path.startswith(f"{prefix}/")
    known = back.checked(path if is_below else prefix + path, "")
    inner = known.removeprefix(prefix) if known else ""
    served = judgement.page_of(this_app(), (inner,), may=_is_page)
    return [Found("page", known, known)] if served else []


def _is_here(asked: str) -> bool:
    """Whether a whole address is on the host of this console: a proxy may have changed http."""
    host = _HOST.match(asked)
    return host is not None and host[1].lower() == request.host.lower()


def _is_page(endpoint: str) -> bool:
    """Whether an address shows something and leads back to no jump."""
    return endpoint.startswith("console.") and endpoint != "console.go"


def _job(session: Session, asked: str) -> list[Found]:
    match = _JOB.fullmatch(asked)
    job_id = int(match[1]) if match else 0
    if not 0 < job_id <= LARGEST_ID:
        return []
    if queries.heads_of(session, [job_id]):
        return [Found("job", str(job_id), url_for(".job", job_id=job_id))]
    # The ledger outlives the row.
    if queries.latest_events_of(session, job_id, limit=1):
        return [Found("job", f"{job_id}, removed", url_for(".events", job=job_id))]
    return []


def _operation(session: Session, asked: str) -> list[Found]:
    match = _OPERATION.fullmatch(asked)
    if match is None:
        return []
    number = match[1].lower()
    try:
        operations.find(session, number)
    except OperationNotFound:
        return []
    return [Found("operation", number, url_for(".operation", operation_id=number))]


def _cause(session: Session, asked: str) -> list[Found]:
    match = _CAUSE.fullmatch(asked)
    if match is None:
        return []
    number = match[1].lower()
    failed = queries.newest_alike(session, number, limit=1)
    if not failed and number not in queries.waiting_line(session, number).causes:
        return []
    return [_of_cause(number)]


def _worker(_session: Session, asked: str) -> list[Found]:
    name = asked.removeprefix("worker:")
    return [_of_worker(known) for known in _workers() if known == name]


def _kind(_session: Session, asked: str) -> list[Found]:
    return [_of_kind(known) for known in _kinds() if known == asked]


def _keyed(session: Session, asked: str) -> list[Found]:
    rows = queries.list_jobs(session, JobFilter(idempotency_key=asked), limit=2).rows
    if len(rows) > 1:
        return [Found("idempotency key", asked, url_for(".jobs", key=asked))]
    return [Found("job", str(row.id), url_for(".job", job_id=row.id)) for row in rows]


def _person(_session: Session, asked: str) -> list[Found]:
    is_one = _PERSON.fullmatch(asked)
    return [Found("actor", asked, url_for(".audit", actor=asked))] if is_one else []


def _workers_like(_session: Session, asked: str) -> list[Found]:
    return [_of_worker(name) for name in _workers() if asked.lower() in name.lower()][:SHOWN]


def _kinds_like(_session: Session, asked: str) -> list[Found]:
    return [_of_kind(name) for name in _kinds() if asked.lower() in name.lower()][:SHOWN]


def _operations_like(session: Session, asked: str) -> list[Found]:
    """By the beginning of its id, as lists show it; among the newest."""
    match = _BEGINNING.fullmatch(asked)
    if match is None:
        return []
    newest, _ = operations.list_operations(session, queries.database_now(session), limit=NEWEST)
    alike = [one.id for one in newest if one.id.startswith(match[1].lower())]
    return [Found("operation", i, url_for(".operation", operation_id=i)) for i in alike[:SHOWN]]


def _causes_like(session: Session, asked: str) -> list[Found]:
    """By the beginning of its fingerprint, among those that the list of errors knows."""
    match, look = _BEGINNING.fullmatch(asked), shared_failures().get().present
    if match is None or look is None:
        return []
    failed = [row.error_fingerprint for row in look.window.value.rows] if look.window.value else ()
    waiting = look.line.value.causes if look.line.value else ()
    alike = {one for one in (*failed, *waiting) if one and one.startswith(match[1].lower())}
    return [_of_cause(one) for one in sorted(alike)[:SHOWN]]


def _kind_of_jobs(session: Session, asked: str) -> list[Found]:
    """A kind that no handler here knows may have jobs all the same."""
    if not KIND.fullmatch(asked):
        return []
    has_jobs = queries.list_jobs(session, JobFilter(kind=asked), limit=1).rows
    return [_of_kind(asked)] if has_jobs else []


# In this order: the first that knows just this text has it. Names for when one cannot be asked.
EXACT: dict[str, Finder] = {
    "pages": _page,
    "addresses": _address,
    "jobs": _job,
    "operations": _operation,
    "errors": _cause,
    "workers": _worker,
    "kinds": _kind,
    "idempotency keys": _keyed,
    "people": _person,
    "lists": _page_of_one,
}
SIMILAR: dict[str, Finder] = {
    "beginnings of operations": _operations_like,
    "beginnings of fingerprints": _causes_like,
    "names of workers": _workers_like,
    "names of kinds": _kinds_like,
    "kinds of jobs": _kind_of_jobs,
}


def _workers() -> list[str]:
    roll = shared_roll().get().present
    return [one.name for one in roll.workers] if roll else []


def _kinds() -> list[str]:
    look = shared_kinds().get().present
    known = {handler.kind for handler in handlers.kinds()}
    return sorted(known.union(handlers.current().external_kinds, names_of(look) if look else ()))


def _of_page(place: places.Place) -> Found:
    return Found("page", place.label, url_for(place.endpoint))


def _of_worker(name: str) -> Found:
    return Found("worker", name, url_for(".worker", name=name))


def _of_cause(number: str) -> Found:
    return Found("error", number, url_for(".error_group", fingerprint=number))


def _of_kind(kind: str) -> Found:
    app = this_app()
    path = judgement.page_of(app, (f"/kinds/{kind}",))
    address = request.script_root + path if path else url_for(".jobs", kind=kind)
    return Found("kind", kind, address)
