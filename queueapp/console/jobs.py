"""The list of jobs: filter in the address, one page at a time, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from flask import redirect, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from queueapp import counts
from queueapp.application import this_app
from queueapp.auth import Permission, permits
from queueapp.console.answers import answer, in_history, wants_panel
from queueapp.console.appearance import IN_ROWS, Moment, buttons_of, moment_of, shown_status
from queueapp.console.as_json import jobs_as_json
from queueapp.console.blueprint import bp
from queueapp.console.criteria import Criteria, parse_id, read_criteria, read_place, unread_place
from queueapp.console.filters import UNKNOWN, at_least, count
from queueapp.console.readings import Reading, bounded, pulse_of, tried
from queueapp.counts import Counts
from queueapp.errors import DatabaseUnavailable
from queueapp.jobs import control, queries
from queueapp.jobs.control import Switch, scope_of
from queueapp.jobs.models import Job
from queueapp.jobs.queries import Page, View, WaitingCounts
from queueapp.jobs.status import Status

ROWS = 50
# Kinds on hold that the list of held jobs names.
HOLDS_SHOWN = 10
# The verbs for ticked rows. Those that are not in each row stand behind the others, and only where
# a row allows them.
TICKED = ("retry", "cancel", "hold", "unhold", "run-now", "purge")
# In the order of a job's life; due, scheduled and retrying are parts of queued.
TABS = (
    "queued", "due", "scheduled", "retrying", "running", "held", "succeeded", "failed", "cancelled",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One job of the list, as the template needs it. ``able``: the buttons that it allows."""

    job: Job
    status: str
    moment: Moment
    able: list[str]

    @property
    def buttons(self) -> list[str]:
        """Those that stand in its row."""
        return [button for button in self.able if button in IN_ROWS]


@dataclass(frozen=True)
class Place:
    """Where in the list the reader is. ``upto``: rows above it are only counted, not shown yet."""

    before: int | None
    after: int | None
    upto: int | None


@bp.get("/jobs")
@permits(Permission.READ)
def jobs() -> AnyResponse:
    """List the jobs that match the address."""
    pulse = pulse_of()
    criteria = read_criteria(request.args, pulse.now)
    known = None if criteria.narrows_within else counts.at_hand(this_app())
    place = Place(
        *(read_place(request.args, name, parse_id) for name in ("before", "after", "upto"))
    )
    lost = unread_place(request.args, asdict(place))
    if criteria.is_written_otherwise and not wants_panel() and not lost:
        return redirect(criteria.url(before=place.before, after=place.after))
    # A list that is shown with counts of before changes again when there are newer ones.
    before = known.pulse.mark if known and known.pulse.mark != pulse.mark else ""
    # Jobs leave a span that goes along with the clock, though nothing happens to them.
    moment = pulse.now.isoformat() if criteria.is_moving else ""
    response = answer(
        "jobs",
        as_of=pulse.now,
        mark=pulse.mark + before + moment,
        context=lambda: {"lost": lost, **_context(bounded(), criteria, place, pulse.now, known)},
        is_shared=True,
    )
    return in_history(response, criteria.url)


def _context(
    session: Session, criteria: Criteria, place: Place, now: datetime, known: Counts | None
) -> Mapping[str, Any]:
    # Side by side: the list does not wait for the numbers of its tabs.
    asks = known is None and not criteria.narrows_within
    begun = asks and counts.shared(this_app()).begin()
    page = _page(session, criteria, place)
    shown: Page = page.value or Page([], None)
    rows = [Row(job, shown_status(job, now), moment_of(job, now), buttons_of(job, now))
            for job in shown.rows]  # fmt: skip
    return {
        "criteria": criteria,
        "page": page,
        "rows": rows,
        "for_ticked": [verb for verb in TICKED
                       if verb in IN_ROWS or any(verb in row.able for row in rows)],
        "first_page": place.before is None and shown.newer is None,
        "newer_count": _newer_count(session, criteria, place),
        "tabs": TABS,
        "holds": _holds(session, criteria),
        "kind": criteria.where.kind,
        "as_json": jobs_as_json(criteria.where),
        "holds_shown": HOLDS_SHOWN,
        **_numbers(session, criteria, known, rows, begun=begun),
        "scan_limit": queries.SCAN_LIMIT,
        "rows_limit": ROWS,
    }  # fmt: skip


def _page(session: Session, criteria: Criteria, place: Place) -> Reading[Page]:
    if criteria.problems:
        return Reading(Page([], None))
    before = place.upto + 1 if place.upto is not None else place.before
    where = criteria.where
    page = tried(session, queries.list_jobs, where, before=before, after=place.after, limit=ROWS)
    if page.value and place.upto is not None and place.before is None:
        # It is the first page still, though the rows above it are only counted.
        return Reading(replace(page.value, newer=None))
    above = page.value if place.after is not None else None
    if above and (above.newer is None or not above.rows):
        # The top is reached: show it whole rather than a page with a few rows.
        return tried(session, queries.list_jobs, where, limit=ROWS)
    return page


def _holds(session: Session, criteria: Criteria) -> Reading[dict[str, Switch]]:
    """Which kinds are on hold, where held jobs or one kind are asked for, and why."""
    if Status.HELD not in criteria.statuses and not criteria.value("kind"):
        return Reading({})
    controls = tried(session, control.in_force)
    if controls.value is None:
        return Reading(None, controls.reason)
    asked = criteria.value("kind")
    kinds = (kind for kind in controls.value.held_kinds if asked in ("", kind))
    return Reading({kind: controls.value.latest[scope_of(kind)] for kind in kinds})


def _newer_count(session: Session, criteria: Criteria, place: Place) -> int:
    """How many jobs wait above the rows that the reader is busy with; ROWS stands for more."""
    if place.upto is None or criteria.problems:
        return 0
    newer = tried(session, queries.list_jobs, criteria.where, after=place.upto, limit=ROWS)
    return len(newer.value.rows) if newer.value else 0


def _numbers(
    session: Session, criteria: Criteria, known: Counts | None, rows: list[Row], *, begun: bool
) -> dict[str, Any]:
    """What stands beside the tabs: how many jobs of the same filter each of them would list.

    ``cut``: only some of the jobs were looked at, so that there may be more; the ``rows`` that are
    shown may be others, and are there for certain.
    """
    nothing = dict.fromkeys(TABS, UNKNOWN)
    if criteria.problems:
        return {"numbers": nothing, "numbers_cut": False}
    if not criteria.narrows_within:
        return {"numbers": nothing | _of_all(known, begun=begun), "numbers_cut": False}
    split = tried(session, queries.split_jobs, criteria.where).value
    if split is None:
        return {"numbers": nothing, "numbers_cut": False}
    shown = _shown(rows, criteria)
    found = {name: split.of(name) for name in TABS}
    numbers = {
        name: at_least(replace(one, count=max(one.count, shown[name])) if one.capped else one)
        for name, one in found.items()
    }
    return {"numbers": numbers, "numbers_cut": bool(split.capped)}


def _shown(rows: list[Row], criteria: Criteria) -> Counter[str]:
    """How many jobs of each tab the page itself shows."""
    shown = Counter(row.job.status for row in rows)
    if len(criteria.statuses) == 1:
        shown[criteria.statuses[0]] = len(rows)
    return shown


def _of_all(known: Counts | None, *, begun: bool) -> dict[str, str]:
    """The counts of all jobs there are; missing where not to be had."""
    try:
        known = known or counts.present(this_app(), begun=begun)
    except DatabaseUnavailable:
        return {}
    found = {status.value: count(n) for status, n in (known.by_status.value or {}).items()}
    if known.depths.value is None:
        return found
    waiting = WaitingCounts.of(known.depths.value)
    return found | {name: at_least(getattr(waiting, name)) for name in View}
