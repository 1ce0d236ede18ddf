"""One operation over many jobs: its plan, the question, how far it is, and the way to stop it.

The page drives it: each answer to "go on" moves some batches, and with scripts asks for the next
ones by itself. So it needs no worker, and a closed tab leaves an operation that anybody may go on
with. A page that is only looked at moves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from flask import Response, redirect, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import Permission, current_principal, permits
from queueapp.console import stops
from queueapp.console.actions import REASON_LENGTH, given_reason
from queueapp.console.answers import answer, dated, render, wants_panel
from queueapp.console.appearance import shown_status
from queueapp.console.blueprint import bp
from queueapp.console.criteria import read_place
from queueapp.console.forms import Form, Unfit, refilled, shown
from queueapp.console.moved_jobs import OPEN, fates_of, rows_of
from queueapp.console.operation_filter import filter_of, list_of
from queueapp.console.operation_story import (
    WORDS,
    jobs_of,
    must_type,
    others_of,
    place_of,
    story_of,
    word_to_type,
)
from queueapp.console.operation_ways import kind_instead, rest_address
from queueapp.console.readings import bounded, glance_at, noticed, tried
from queueapp.errors import (
    BadRequest,
    OperationBusy,
    OperationNeedsAdmin,
    OperationStopped,
)
from queueapp.extensions import db
from queueapp.jobs import operations, queries
from queueapp.jobs.database import Database
from queueapp.jobs.operations import Mark, Operation, Undone
from queueapp.jobs.queries import Pulse
from queueapp.jobs.status import FINAL, Status

SAMPLE = 10
# How long one request goes on, and how long one statement of a batch may take.
LONGEST_S = 1.0
BATCH_S = 5.0
# A batch that was at work when somebody stopped the operation is over by then.
LAST_BATCH = timedelta(seconds=2 * BATCH_S)


@bp.get("/operations/<operation_id>")
@permits(Permission.READ)
def operation(operation_id: str) -> AnyResponse:
    """Show where an operation stands."""
    number = operations.known_id(operation_id)
    pulse, made = glance_at(("operation", number), lambda: noticed(_glance, number))
    place = read_place(request.args, "jobs", Mark.parse)
    return answer(
        "operation",
        as_of=pulse.now,
        mark=f"{pulse.mark} {made.is_over} {_may_move(made, pulse.now)} {stops.mark_of(made)}",
        context=lambda: _context(bounded(), made, pulse.now, drives=False, place=place),
        is_shared=True,
    )


def _glance(database: Database, operation_id: str) -> tuple[Pulse, Operation]:
    return queries.pulse(database), operations.find(database, operation_id)


@bp.post("/operations/<operation_id>/apply")
@permits(Permission.ACT)
def apply_operation(operation_id: str) -> AnyResponse:
    """Begin an operation, or go on with it, for about a second."""
    session = db.session()
    made = operations.find(session, operations.known_id(operation_id))
    if made.is_over and wants_panel():
        # Somebody stopped it between two posts of the page's chain: the page shows that.
        return _gone_on(session, made, is_mine=False)
    try:
        _confirmed(made)
    except Unfit as error:
        return shown_again(session, made, refilled(error))
    session.rollback()
    made, is_mine = _drive(session, operation_id)
    return _gone_on(session, made, is_mine=is_mine)


@bp.post("/operations/<operation_id>/count")
@permits(Permission.ACT)
def count_operation(operation_id: str) -> AnyResponse:
    """Go on counting what a plan is for, for about a second; moves nothing."""
    session = db.session()
    actor, number = current_principal().actor, operations.known_id(operation_id)
    queries.bound_reads(session, seconds=BATCH_S)
    try:
        made, is_mine = operations.count(session, number, actor=actor), True
    except OperationBusy:
        # Somebody else counts.
        session.rollback()
        made, is_mine = operations.find(session, number), False
    session.commit()
    return _gone_on(session, made, is_mine=is_mine)


@bp.post("/operations/<operation_id>/stop")
@permits(Permission.ACT)
def stop_operation(operation_id: str) -> AnyResponse:
    """Stop an operation for good."""
    session, number = db.session(), operations.known_id(operation_id)
    actor = current_principal().actor
    operations.stop(session, number, actor=actor, reason=given_reason() or None, via="console")
    session.commit()
    return redirect(url_for(".operation", operation_id=number), 303)


def _gone_on(session: Session, made: Operation, *, is_mine: bool) -> AnyResponse:
    """The operation as it is now; with scripts the page asks for what comes next by itself.

    Not beside another driver (``is_mine``): there is nothing to do but to watch.
    """
    if not wants_panel():
        return redirect(url_for(".operation", operation_id=made.id), 303)
    queries.bound_reads(session)
    now = queries.database_now(session)
    goes_on = made.state in ("counting", "applying", "canary") and not made.is_on_trial
    context = _context(session, made, now, drives=goes_on and is_mine)
    body = render("operation", panel=True, as_of=now, ptag="", **context)
    # Without a mark: it is no page that was looked at, and the next poll is to have a whole one.
    return dated(Response(body, mimetype="text/html"), now)


def shown_again(session: Session, made: Operation, form: Form) -> Response:
    """The page of the operation, with what is wrong in the form that was sent."""
    queries.bound_reads(session)
    now = queries.database_now(session)
    context = _context(session, made, now, drives=False)
    return shown("operation", form, as_of=now, **context)


def _confirmed(made: Operation) -> None:
    """Whoever begins with many jobs has typed how many they are, and for all what is done."""
    if made.state == "stopped":
        raise OperationStopped(f"operation {made.id} was stopped by {made.changed_by}")
    if made.state == "counting":
        raise BadRequest("nothing was done: the jobs are not all counted yet")
    if made.state != "done":
        operations.refuse_beyond(made, current_principal().most_jobs)
    typed = re.sub(r"[\s,.']", "", request.form.get("count", ""))
    if must_type(made) and typed != str(made.counts.total):
        raise Unfit(
            "count", f"nothing was done: type {made.counts.total}, the number of jobs, to confirm"
        )
    word = word_to_type(made)
    if word is not None and request.form.get("word", "").strip().lower() != word:
        raise Unfit("word", f"nothing was done: type {word}, what is done to them, to confirm")


def _drive(session: Session, operation_id: str) -> tuple[Operation, bool]:
    """Move batch after batch, each committed, while there is time; whether nobody else does."""
    actor, most = current_principal().actor, current_principal().most_jobs
    deadline = monotonic() + LONGEST_S
    while True:
        queries.bound_reads(session, seconds=BATCH_S)
        try:
            made = operations.step(session, operation_id, actor=actor, via="console", most=most)
        except OperationBusy:
            # Somebody else goes on with it.
            session.rollback()
            return operations.find(session, operation_id), False
        session.commit()
        if made.is_over or made.is_on_trial or monotonic() > deadline:
            return made, True


def _context(
    session: Session, made: Operation, now: datetime, *, drives: bool, place: Mark | None = None
) -> Mapping[str, Any]:
    trials: list[operations.Trial] = []
    if made.canary is not None:
        trials = operations.trials_of(session, made.id, made.canary, planned_at=made.planned_at)
    first: operations.Sample | None = None
    if made.state == "planned":
        first = tried(session, operations.sample_of, made, SAMPLE).value
    sample = queries.heads_of(session, first.ids) if first else []
    fates = fates_of(session, made)
    undone = (tried(session, operations.undone_of, [made]).value or {}).get(made.id, Undone())
    alike = list_of(made.asked) if made.undoes is None else None
    limit = current_principal().most_jobs
    return {
        "made": made,
        "story": story_of(made, trials),
        "words": WORDS[made.verb],
        "jobs": jobs_of(made),
        "must_type": must_type(made),
        "word": word_to_type(made),
        "needs_admin": _is_beyond(made, limit),
        "is_for_admins": made.verb in operations.FOR_ADMINS,
        "copies": _copies(made),
        "limit": limit,
        "instead": kind_instead(made),
        "filter": filter_of(made.asked),
        "place": place_of(made),
        "others": others_of(made),
        "moved": rows_of(session, made, now, place),
        "place_of_jobs": place,
        "fates": fates,
        "goes_on": any(name in OPEN for name, _ in fates.value or ()),
        "no_undo": _no_undo(made, undone),
        "undone": undone,
        "stops": stops.of_operation(made, sample, trials, fates.value or ()),
        "list_url": None if alike is None else url_for(".jobs", **alike),  # type: ignore[arg-type]
        "again_url": rest_address(made),
        "sample": [(job, shown_status(job, now)) for job in sample],
        "sample_cut": first is not None and not first.whole,
        "trials": [(trial, _standing(trial, now)) for trial in trials],
        "drives": drives,
        "may_move": _may_move(made, now),
        "final": FINAL,
        "reason_length": REASON_LENGTH,
    }


def _copies(made: Operation) -> list[tuple[str, str]]:
    """What is about to be purged as files, whole; none where no list can be narrowed so."""
    alike: Mapping[str, Any] | None = list_of(made.where)
    if made.verb != "purge" or alike is None:
        return []
    files = (("CSV", ".jobs_csv"), ("NDJSON", ".jobs_ndjson"))
    return [(name, url_for(page, **alike, whole="yes")) for name, page in files]


def _no_undo(made: Operation, undone: Undone) -> str | None:
    """Why no undo is offered where something was moved."""
    return operations.why_not_undone(made, undone) if made.is_over and made.moved else None


def _may_move(made: Operation, now: datetime) -> bool:
    """Whether its numbers may still change: also for a moment after it was stopped."""
    if made.state == "stopped":
        return now < made.changed_at + LAST_BATCH
    return not made.is_over


def _is_beyond(made: Operation, most: int | None) -> bool:
    try:
        operations.refuse_beyond(made, most)
    except OperationNeedsAdmin:
        return True
    return False


def _standing(trial: operations.Trial, now: datetime) -> str:
    """The word for a canary job: its end, or where its row stands."""
    if trial.has_ended:
        return trial.fate
    row = trial.row
    if row.status == Status.QUEUED and row.available_at > now:
        return "retrying" if row.attempts else "scheduled"
    return str(row.status)
