"""Failures by cause, for programs: what the page /errors shows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from flask import Blueprint, Response
from sqlalchemy.orm import Session

from queueapp.api.answers import Count
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.describe import instant, instant_or_null, json_answer
from queueapp.api.model import Model
from queueapp.api.reading import read_query
from queueapp.api.schemas import Text, _Query, _says
from queueapp.auth import Permission, permits
from queueapp.errors import InvalidRequest
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import Group, Line, Window
from queueapp.jobs.queries.failures import COUNTED

bp = Blueprint("api_causes", __name__, url_prefix="/api")


class CausesQuery(_Query):
    """Which causes."""

    kind: Annotated[Text | None, _says("Only causes that have hit this kind.")] = None


class Cause(Model):
    """One cause: all jobs that have the same error at the same place."""

    fingerprint: Annotated[str, _says("What its jobs have in common: the filter of lists.")]
    error_class: Annotated[str | None, _says("The class of the error.")]
    message: Annotated[str | None, _says("The message of one of its jobs, its first line.")]
    failed: Annotated[int, _says("How many of the newest failures are of it.")]
    all_failed: Annotated[Count, _says("How many jobs are failed with it, up to 1,000.")]
    waiting: Annotated[int, _says("Jobs that wait to be tried again after it, of those looked at.")]
    held: Annotated[int, _says("Jobs that are held and failed so last, of those looked at.")]
    kinds: Annotated[dict[str, int], _says("Which kinds it has hit, and how many of their jobs.")]
    first_seen_at: Annotated[datetime | None, _says("When the first of its jobs failed so.")]
    last_seen_at: Annotated[datetime | None, _says("When the last of them did.")]
    newest_id: Annotated[int | None, _says("The job that failed with it last.")]


class Causes(Model):
    """The causes, those of the last hour and of what waits first."""

    as_of: Annotated[datetime, _says("The instant that it is about.")]
    items: Annotated[list[Cause], _says("The causes, thirty at most.")]
    more: Annotated[int, _says("How many there are besides, with fewer jobs.")]
    failures: Annotated[int, _says("How many failures were looked at: the newest thousand.")]
    failures_from: Annotated[datetime | None, _says("The oldest of them.")]
    failures_cut: Annotated[bool, _says("There are older ones.")]
    waiting_cut: Annotated[bool, _says("More jobs wait than were looked at.")]


@bp.get("/errors")
@permits(Permission.READ)
@contract(
    Part.READ,
    {200: Answer("The causes.", Causes)},
    query=CausesQuery,
    refuses=(InvalidRequest,),
    more="A cause is made of the newest thousand failures, and of the jobs that are next in line."
    " Its jobs are those of `GET /api/jobs?fingerprint=…`.",
    examples=(
        Example("What fails?"),
        Example("What fails of one kind?", query="kind=http.request"),
    ),
)
def causes() -> Response:
    """List what fails, by cause."""
    query, session = read_query(CausesQuery), db.session()
    queries.bound_reads(session)
    return json_answer(_told(session, query.kind))


def _told(session: Session, kind: str | None) -> dict[str, Any]:
    now = queries.database_now(session)
    window: Window = queries.failure_window(session)
    line: Line = queries.waiting_line(session)
    groups, number = queries.groups_of(session, window, line, now, kind=kind)
    return {
        "as_of": instant(now),
        "items": [_cause(group) for group in groups],
        "more": number - len(groups),
        "failures": len(window.rows),
        "failures_from": instant_or_null(window.start),
        "failures_cut": window.is_cut,
        "waiting_cut": line.is_cut,
    }


def _cause(group: Group) -> dict[str, Any]:
    return {
        "fingerprint": group.fingerprint,
        "error_class": group.error_class,
        "message": group.sample,
        "failed": group.failed,
        "all_failed": {
            "count": min(group.all_failed, COUNTED),
            "more": group.all_failed > COUNTED,
        },
        "waiting": group.waiting.queued,
        "held": group.waiting.held,
        "kinds": dict(group.kinds),
        "first_seen_at": instant_or_null(group.first_seen_at),
        "last_seen_at": instant_or_null(group.last_seen_at),
        "newest_id": group.newest_id,
    }
