"""What a list of jobs can be narrowed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Text, func, literal_column

from queueapp.jobs.models import Job
from queueapp.jobs.queries.payload_fields import PayloadField, is_held
from queueapp.jobs.queries.touched import is_touched_by
from queueapp.jobs.status import Status


class View(StrEnum):
    """A part of the queued jobs. Each job that waits for its time is in ``scheduled``; those among
    them that have been tried before are also in ``retrying``."""

    DUE = "due"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"


@dataclass(frozen=True)
class Span:
    """Instants from ``start`` on and before ``end``; None: without that bound."""

    start: datetime | None = None
    end: datetime | None = None

    def __bool__(self) -> bool:
        return self.start is not None or self.end is not None


ANY_TIME = Span()
_SPANS = ("created", "available", "finished")


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """What a list of jobs is narrowed to; empty fields narrow nothing.

    ``priority_min`` and ``priority_max`` are both included, ``attempts_min`` likewise. ``worker``:
    which of them runs them now, as ``locked_by`` names it or without the ``worker:`` before that.
    ``operation``: the id of an operation over many jobs that has moved them.
    """

    status: tuple[Status, ...] = ()
    view: View | None = None
    kind: str | None = None
    producer: str | None = None
    priority: int | None = None
    priority_min: int | None = None
    priority_max: int | None = None
    fingerprint: str | None = None
    idempotency_key: str | None = None
    operation: str | None = None
    worker: str | None = None
    attempts: int | None = None
    attempts_min: int | None = None
    payload: tuple[PayloadField, ...] = ()
    created: Span = ANY_TIME
    available: Span = ANY_TIME
    finished: Span = ANY_TIME


def written_filter(where: JobFilter) -> dict[str, Any]:
    """The filter as JSON, as the ledger keeps it: fields that narrow nothing are left out."""
    return {
        one.name: _written(value)
        for one in fields(where)
        if (value := getattr(where, one.name)) not in (None, (), ANY_TIME)
    }


def _written(value: Any) -> Any:
    if isinstance(value, Span):
        return [None if at is None else at.isoformat() for at in (value.start, value.end)]
    return value


def read_filter(written: Mapping[str, Any]) -> JobFilter:
    """The filter that ``written_filter`` has written."""
    read: dict[str, Callable[[Any], Any]] = {
        "status": _statuses,
        "view": View,
        "payload": _fields,
        **dict.fromkeys(_SPANS, _span),
    }
    return JobFilter(**{name: read.get(name, _same)(value) for name, value in written.items()})


def _statuses(names: Iterable[str]) -> tuple[Status, ...]:
    return tuple(Status(name) for name in names)


def _fields(pairs: Iterable[Iterable[str]]) -> tuple[PayloadField, ...]:
    return tuple(PayloadField(*pair) for pair in pairs)


def _span(ends: Iterable[str | None]) -> Span:
    return Span(*(None if at is None else datetime.fromisoformat(at) for at in ends))


def _same(value: Any) -> Any:
    return value


def conditions(where: JobFilter) -> list[ColumnElement[bool]]:
    """The WHERE clause of ``where``, part by part: only what is present."""
    own = [*_of_status(where), *_of_view(where.view), *_of_columns(where), *_of_ranges(where)]
    own += _of_worker(where.worker)
    # What costs most comes last: the planner keeps the order of what it takes for equally dear.
    own += [is_held(field) for field in where.payload]
    return own if where.operation is None else [*own, is_touched_by(where.operation)]


def has_columns(where: JobFilter) -> bool:
    """Whether the rows themselves must be looked at, beyond a status or a view."""
    both = where.view is not None and bool(where.status)
    others = where.payload or where.operation is not None or where.worker is not None
    narrowed = _of_columns(where) or _of_ranges(where) or others
    return bool(narrowed) or both or where.view is View.RETRYING


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
        (Job.attempts, where.attempts),
    )
    return [column == value for column, value in wanted if value is not None]


def _of_worker(worker: str | None) -> list[ColumnElement[bool]]:
    if worker is None:
        return []
    # Nothing else has a holder, and an index knows what runs.
    is_running = Job.status == _literal(Status.RUNNING)
    return [Job.locked_by.in_((worker, f"worker:{worker}")), is_running]


def _of_ranges(where: JobFilter) -> list[ColumnElement[bool]]:
    at_least: tuple[tuple[Any, Any], ...] = (
        (Job.priority, where.priority_min),
        (Job.attempts, where.attempts_min),
        (Job.created_at, where.created.start),
        (Job.available_at, where.available.start),
        (Job.finished_at, where.finished.start),
    )
    before: tuple[tuple[Any, Any], ...] = (
        (Job.created_at, where.created.end),
        (Job.available_at, where.available.end),
        (Job.finished_at, where.finished.end),
    )
    found = [column >= value for column, value in at_least if value is not None]
    found += [column < value for column, value in before if value is not None]
    return found if where.priority_max is None else [*found, Job.priority <= where.priority_max]


def _literal(status: Status) -> ColumnElement[str]:
    return literal_column(f"'{Status(status)}'", Text)
