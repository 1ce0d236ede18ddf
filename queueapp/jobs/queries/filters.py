"""What a list of jobs can be narrowed to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Text, func, literal_column

from queueapp.jobs.models import Job
from queueapp.jobs.status import Status


class View(StrEnum):
    """A part of the queued jobs. Each job that waits for its time is in ``scheduled``; those among
    them that have been tried before are also in ``retrying``."""

    DUE = "due"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """What a list of jobs is narrowed to; empty fields narrow nothing."""

    status: tuple[Status, ...] = ()
    view: View | None = None
    kind: str | None = None
    producer: str | None = None
    priority: int | None = None
    fingerprint: str | None = None
    idempotency_key: str | None = None


def conditions(where: JobFilter) -> list[ColumnElement[bool]]:
    """The WHERE clause of ``where``, part by part: only what is present."""
    return [*_of_status(where), *_of_view(where.view), *_of_columns(where)]


def has_columns(where: JobFilter) -> bool:
    """Whether the rows themselves must be looked at, beyond status and view."""
    return bool(_of_columns(where)) or where.view is View.RETRYING


def _of_status(where: JobFilter) -> list[ColumnElement[bool]]:
    if not where.status:
        return []
    return [Job.status.in_([_literal(status) for status in where.status])]


def _of_view(view: View | None) -> list[ColumnElement[bool]]:
    if view is None:
        return []
    due = Job.available_at <= func.statement_timestamp()
    found = [Job.status == _literal(Status.QUEUED), due if view is View.DUE else ~due]
    return [*found, Job.attempts > 0] if view is View.RETRYING else found


def _of_columns(where: JobFilter) -> list[ColumnElement[bool]]:
    wanted = (
        (Job.kind, where.kind),
        (Job.producer, where.producer),
        (Job.priority, where.priority),
        (Job.error_fingerprint, where.fingerprint),
        (Job.idempotency_key, where.idempotency_key),
    )
    return [column == value for column, value in wanted if value is not None]


def _literal(status: Status) -> ColumnElement[str]:
    return literal_column(f"'{Status(status)}'", Text)
