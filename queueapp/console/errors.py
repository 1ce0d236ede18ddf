"""Failures by cause: the list of causes, one cause, and what to do about all its jobs at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from flask import Response, redirect, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from queueapp import shared_readings
from queueapp.auth import Permission, permits
from queueapp.console.actions import REASON_LENGTH
from queueapp.console.answers import answer, in_history, timer_life_s, wants_panel
from queueapp.console.appearance import shown_status
from queueapp.console.as_json import causes_as_json
from queueapp.console.blueprint import bp
from queueapp.console.criteria import has_empty_fields
from queueapp.console.failures import Failures, shared_failures
from queueapp.console.filters import cut
from queueapp.console.forms import Unfit, refilled, shown
from queueapp.console.kinds import kind_address
from queueapp.console.planning import planned
from queueapp.console.readings import bounded, pulse_of, tried
from queueapp.console.sparks import Spark, spark_of
from queueapp.console.unread import problems_of
from queueapp.errors import BadRequest, PageNotFound
from queueapp.extensions import db
from queueapp.jobs import control, operations, queries
from queueapp.jobs.deploy import Deploy
from queueapp.jobs.frames import own_frames
from queueapp.jobs.models import Job
from queueapp.jobs.queries import (
    COUNT_LIMIT,
    Field,
    Group,
    JobFilter,
    Line,
    Window,
)
from queueapp.jobs.queries.line import SHOWN_IDS
from queueapp.jobs.status import Status
from queueapp.redaction import Redaction, for_reader

ROWS = 10
# Payloads side by side.
COMPARED = 4
_FINGERPRINT = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True)
class Cause:
    """A group as the templates need it. ``new``: since when it is new, in words; else nothing."""

    group: Group
    spark: Spark
    share: int | None
    new: str


def group_address(fingerprint: str | None) -> str | None:
    """The page of a cause; None for a fingerprint that was not made here."""
    if fingerprint is None or not _FINGERPRINT.fullmatch(fingerprint):
        return None
    return url_for("console.error_group", fingerprint=fingerprint)


@bp.get("/errors")
@permits(Permission.READ)
def errors() -> AnyResponse:
    """Show the causes of the newest failures, and of what waits to be tried again."""
    kind = request.args.get("kind", "").strip()
    problems = problems_of(request.args, ("kind",))
    if has_empty_fields(request.args) and not problems and not wants_panel():
        return redirect(url_for(".errors"))
    look = shared_readings.present(shared_failures().get(life_s=timer_life_s()))
    response = answer(
        "errors",
        as_of=look.pulse.now,
        mark=look.mark,
        context=lambda: {"problems": problems, **_causes(look, kind)},
        is_shared=True,
    )
    return in_history(response, lambda: url_for(".errors", kind=kind or None))


@bp.get("/errors/<fingerprint>")
@permits(Permission.READ)
def error_group(fingerprint: str) -> Response:
    """Show one cause: a sample, how its payloads differ, its jobs, and what can be done."""
    _known(fingerprint)
    pulse = pulse_of()
    return answer(
        "error_group",
        as_of=pulse.now,
        mark=f"{pulse.mark} {pulse.now:%H:%M}",
        context=lambda: _one(bounded(), fingerprint, pulse.now),
        is_shared=True,
    )


@bp.post("/errors/<fingerprint>")
@permits(Permission.ACT)
def plan_for_group(fingerprint: str) -> AnyResponse:
    """Plan what the button says for all jobs of a cause; the operation's page asks then."""
    verb, session = request.form.get("verb", ""), db.session()
    fingerprint = _known(fingerprint)
    queries.bound_reads(session)
    where = _filter(session, fingerprint, verb)
    try:
        made = planned(
            session,
            "cancel" if verb == "cancel" else "retry",
            where,
            key=f"{verb} {fingerprint}",
            canary=operations.Terms() if verb == "canary" else None,
        )
    except Unfit as error:
        now = queries.database_now(session)
        context = _one(session, fingerprint, now)
        return shown("error_group", refilled(error), as_of=now, **context)
    return redirect(url_for(".operation", operation_id=made.id), 303)


def _known(fingerprint: str) -> str:
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise PageNotFound("a fingerprint is 16 hexadecimal digits")
    return fingerprint


def _filter(session: Session, fingerprint: str, verb: str) -> JobFilter:
    if verb in ("retry", "canary"):
        return JobFilter(status=(Status.FAILED,), fingerprint=fingerprint)
    if verb != "cancel":
        raise BadRequest("press a button of the form: retry, canary or cancel")
    waiting = queries.waiting_line(session, fingerprint).causes.get(fingerprint)
    # What is held is planned for only where the page tells of some.
    held = (Status.HELD,) if waiting is not None and waiting.held else ()
    return JobFilter(status=(Status.QUEUED, *held), fingerprint=fingerprint)


def _causes(look: Failures, kind: str) -> Mapping[str, Any]:
    session, now = db.session(), look.pulse.now
    window, line, deploy = look.window, look.line, look.deploy
    looked = window.value or Window([], None, False)
    waits = line.value or Line({}, False)
    queries.bound_reads(session)
    groups = tried(session, queries.groups_of, looked, waits, now, kind=kind or None)
    shown, number = groups.value or ([], 0)
    return {
        "kind": kind,
        "as_json": causes_as_json(kind),
        "window": looked,
        "line": waits,
        "deploy": deploy.value,
        "reasons": [one.reason for one in (window, line, groups) if one.reason],
        "unread": {"window": window.reason, "line": line.reason},
        "causes": [_cause(group, looked, deploy.value, now) for group in shown],
        "more": number - len(shown),
        "told_of_waiting": SHOWN_IDS,
        "without": sum(row.error_fingerprint is None for row in looked.rows),
    }


def _one(session: Session, fingerprint: str, now: datetime) -> Mapping[str, Any]:
    window = tried(session, queries.failure_window)
    line = tried(session, queries.waiting_line, fingerprint)
    deploy = tried(session, queries.last_deploy, now)
    looked = window.value or Window([], None, False)
    waits = line.value or Line({}, False)
    found = tried(session, _read_group, fingerprint, looked, waits, now)
    group = found.value or Group(fingerprint, buckets=[0])
    failed = tried(session, _newest_failed, fingerprint)
    jobs = failed.value or []
    waiting = queries.heads_of(session, group.waiting.ids[:ROWS])
    compared = [job.id for job in (*jobs, *waiting)][:COMPARED]
    kinds = {job.id: job.kind for job in (*jobs, *waiting)}
    read = tried(session, queries.fields_of, compared).value or []
    hidden = for_reader()
    fields = [_shown(field, kinds, hidden) for field in read]
    return {
        "window": looked,
        "line": waits,
        "deploy": deploy.value,
        "reasons": [one.reason for one in (window, line, found, failed) if one.reason],
        "unread": {
            "window": window.reason,
            "line": line.reason,
            "group": found.reason,
            "failed": failed.reason,
            "waiting": line.reason or found.reason,
        },
        "cause": _cause(group, looked, deploy.value, now),
        "group": group,
        "failed": jobs,
        "waiting": [(job, shown_status(job, now)) for job in waiting],
        **_holds(session, group),
        "compared": compared,
        "differing": [field for field in fields if field.differs(compared)],
        "same": [field for field in fields if not field.differs(compared)],
        "cause_words": _words_of(group),
        "message": _message_of(group),
        **_sample(session, jobs, waiting),
        "reason_length": REASON_LENGTH,
        "count_limit": COUNT_LIMIT,
    }


def _shown(field: Field, kinds: Mapping[int, str], hidden: Redaction) -> Field:
    """A field of the payloads as the reader may see it; which of them differ is told to all."""
    values = {
        job_id: replace(value, text=hidden.of(kinds[job_id]).of_field(field.name, value.text))
        for job_id, value in field.values.items()
    }
    return replace(field, values=values)


def _holds(session: Session, group: Group) -> dict[str, Any]:
    """Which of its kinds are on hold, and the button for each of the commonest."""
    held = tried(session, control.in_force)
    on_hold = held.value.held_kinds if held.value else ()
    common = [kind for kind, _ in group.kinds.most_common(3) if kind_address(kind)]
    return {
        "held_kinds": sorted({*group.kinds} & {*on_hold}),
        "hold_verbs": {kind: "unhold" if kind in on_hold else "hold" for kind in common},
    }


def _words_of(group: Group) -> str:
    """What stands in the field for the reason until somebody writes another one."""
    return cut(": ".join(filter(None, (group.error_class, _message_of(group)))), 200)


def _message_of(group: Group) -> str | None:
    """What messages of the cause have in common; of one that was all value only marks are left."""
    return group.message if re.search(r"\w", group.message or "") else None


def _read_group(
    session: Session, fingerprint: str, window: Window, line: Line, now: datetime
) -> Group:
    return queries.group_of(session, fingerprint, window, line, now, bound=COUNT_LIMIT)


def _newest_failed(session: Session, fingerprint: str) -> list[Job]:
    ids = queries.newest_alike(session, fingerprint, limit=ROWS)
    found = {job.id: job for job in queries.heads_of(session, ids)}
    return [found[i] for i in ids if i in found and found[i].status == Status.FAILED]


def _sample(session: Session, failed: list[Job], waiting: list[Job]) -> dict[str, Any]:
    """One job of the cause with its whole error, the application's own frames apart."""
    if not failed and not waiting:
        return {"sample": None, "failure": None, "frames": []}
    sample = queries.get_head(session, (failed or waiting)[0].id)
    failure = queries.last_failure(session, sample.id)
    trace = failure.traceback if failure else None
    return {"sample": sample, "failure": failure, "frames": own_frames(trace or "")}


def _cause(group: Group, window: Window, deploy: Deploy | None, now: datetime) -> Cause:
    all_failed = len(window.rows)
    share = round(100 * group.failed / all_failed) if all_failed else None
    return Cause(
        group, spark_of(group.buckets, window.start, now), share, _new(group, window, deploy)
    )


def _new(group: Group, window: Window, deploy: Deploy | None) -> str:
    """Since when a cause is new, as far as the jobs that are still failed can tell."""
    if group.first_at is None:
        return ""
    if deploy is not None and group.first_at >= deploy.at:
        return "deploy"
    # With no older failures to compare with, everything would be new.
    if window.is_cut and window.start is not None and group.first_at >= window.start:
        return "window"
    return ""
