"""Every shared read. Reads never write, never count without a bound, never load payloads in lists.

Lists are paged by id, newest first. A filter that no index serves looks at the newest ``SCAN_LIMIT``
rows of the page only, and the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal_column, select
from sqlalchemy.orm import Session, load_only

from queueapp.errors import JobNotFound
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Status

SCAN_LIMIT = 20_000
COUNT_LIMIT = 10_000

# What a list shows of a job: everything but the bodies (payload, result, error text).
LISTED = (
    Job.id, Job.kind, Job.status, Job.priority, Job.available_at, Job.attempts, Job.max_attempts,
    Job.handbacks, Job.held_for, Job.locked_by, Job.lease_expires_at, Job.claimed_at,
    Job.cancel_requested_at, Job.progress, Job.progress_note, Job.error_class,
    Job.error_fingerprint, Job.producer, Job.idempotency_key, Job.timeout_s, Job.created_at,
    Job.started_at, Job.finished_at,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """What a list of jobs is narrowed to; empty fields narrow nothing."""

    status: tuple[Status, ...] = ()
    kind: str | None = None
    producer: str | None = None
    priority: int | None = None
    fingerprint: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Page:
    """One page of rows, newest first.

    ``older``: id to pass as ``before`` for the next page, None at the end. ``cut``: the filter has
    no index and older rows than those scanned were not looked at; ``older`` then goes on from there.
    """

    rows: Sequence[Any]
    older: int | None
    cut: bool = field(default=False)


def get_job(session: Session, job_id: int) -> Job:
    """Load one job whole. Raises JobNotFound."""
    job = session.get(Job, job_id, populate_existing=True) if 0 < job_id < 2**63 else None
    if job is None:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    return job


def list_jobs(
    session: Session, where: JobFilter, *, before: int | None = None, limit: int = 50
) -> Page:
    """List jobs newest first, without payloads, results and error texts."""
    scanned = select(Job.id).order_by(Job.id.desc()).limit(SCAN_LIMIT)
    if before is not None:
        scanned = scanned.where(Job.id < before)
    floor = scanned.subquery()
    lowest = session.scalar(select(func.min(floor.c.id))) or 0
    stmt = (
        select(Job)
        .options(load_only(*LISTED, raiseload=True))
        .where(Job.id >= lowest, *_conditions(where))
        .order_by(Job.id.desc())
        .limit(limit + 1)
    )
    if before is not None:
        stmt = stmt.where(Job.id < before)
    rows = session.scalars(stmt.execution_options(populate_existing=True)).all()
    if len(rows) > limit:
        return Page(rows[:limit], rows[limit - 1].id)
    unseen = lowest > 0 and session.scalar(select(Job.id).where(Job.id < lowest).limit(1))
    return Page(rows, lowest if unseen else None, cut=bool(unseen))


def _conditions(where: JobFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if where.status:
        found.append(Job.status.in_([s.value for s in where.status]))
    for column, value in (
        (Job.kind, where.kind),
        (Job.producer, where.producer),
        (Job.priority, where.priority),
        (Job.error_fingerprint, where.fingerprint),
        (Job.idempotency_key, where.idempotency_key),
    ):
        if value is not None:
            found.append(column == value)
    return found


def events_of(
    session: Session, job_id: int, *, after: int = 0, limit: int = 200
) -> Sequence[JobEvent]:
    """The job's own lines of the ledger, oldest first, with ids above ``after``."""
    stmt = (
        select(JobEvent)
        .where(JobEvent.job_id == job_id, JobEvent.id > after)
        .order_by(JobEvent.id)
        .limit(limit)
    )
    return session.scalars(stmt).all()


def status_counts(session: Session) -> dict[Status, int]:
    """How many jobs stand in each status, each counted up to COUNT_LIMIT + 1."""
    counts = [
        _capped(select(Job.id).where(Job.status == literal_column(f"'{status}'"))).label(status)
        for status in Status
    ]
    row = session.execute(select(*counts)).one()
    return {status: row[index] for index, status in enumerate(Status)}


def _capped(rows: Select[Any]) -> Any:
    bounded = rows.limit(COUNT_LIMIT + 1).subquery()
    return select(func.count()).select_from(bounded).scalar_subquery()


def database_now(session: Session) -> datetime:
    """The database's clock, by which everything is due."""
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return now
