"""When jobs held with their kind are due: a hold that is lifted leaves each its time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, case, func, literal_column, select
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job
from queueapp.jobs.queries.bounds import SCAN_LIMIT
from queueapp.jobs.status import Status

# Literals, for the partial index.
_HELD: ColumnElement[str] = literal_column(f"'{Status.HELD}'")
_KIND: ColumnElement[str] = literal_column("'kind'")
# Later than that Python cannot tell.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Later:
    """How many jobs are not due yet, and when the last of them is; None: never, for all we know.

    ``is_least``: not all that are held were looked at.
    """

    jobs: int
    last_at: datetime | None
    is_least: bool = False


def held_later(session: Session, kind: str, now: datetime) -> Later:
    """Those held with ``kind`` that are due after ``now``, of the first ``SCAN_LIMIT``."""
    held = (
        select(Job.available_at)
        .where(Job.status == _HELD, Job.held_for == _KIND, Job.kind == kind)
        .order_by(Job.id)
        .limit(SCAN_LIMIT)
        .subquery()
    )
    is_later, at = held.c.available_at > now, held.c.available_at
    found = session.execute(
        select(
            func.count(),
            func.count(case((is_later, 1))),
            func.max(case((is_later & (at < _NEVER), at))),
        ).select_from(held)
    ).one()
    return Later(found[1], found[2], found[0] >= SCAN_LIMIT)
