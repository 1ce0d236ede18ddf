"""How many jobs a filter finds, up to a bound: a count never reads more than a page or two does."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import BigInteger, ColumnElement, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job
from queueapp.jobs.queries.bounds import COUNT_LIMIT, SCAN_LIMIT
from queueapp.jobs.queries.candidates import Candidates, find_candidates
from queueapp.jobs.queries.filters import JobFilter, conditions, has_columns


@dataclass(frozen=True)
class Counted:
    """``capped``: there may be more, for the count or what it looked at has come to its bound."""

    count: int
    capped: bool


def count_jobs(session: Session, where: JobFilter) -> Counted:
    """Count the jobs of a filter, COUNT_LIMIT at most, among the rows that a list would look at."""
    found = find_candidates(session, where)
    if found is not None:
        return _among(session, where, found)
    if where == JobFilter():
        return _counted(_count(session, []), capped=False)
    newest = select(Job.id).order_by(Job.id.desc()).limit(SCAN_LIMIT).subquery()
    lowest = session.scalar(select(func.min(newest.c.id))) or 0
    older = session.scalar(select(Job.id).where(Job.id < lowest).limit(1)) is not None
    return _counted(_count(session, [Job.id >= lowest, *conditions(where)]), capped=older)


def _among(session: Session, where: JobFilter, found: Candidates) -> Counted:
    capped = found.partial or found.many
    if not has_columns(where) and not found.partial:
        return _counted(len(found.ids), capped=capped)
    among = Job.id == any_(literal(found.ids, ARRAY(BigInteger)))
    return _counted(_count(session, [among, *conditions(where)]), capped=capped)


def _count(session: Session, where: list[ColumnElement[bool]]) -> int:
    rows = select(literal(1)).select_from(Job).where(*where).limit(COUNT_LIMIT + 1).subquery()
    return session.scalar(select(func.count()).select_from(rows)) or 0


def _counted(found: int, *, capped: bool) -> Counted:
    return Counted(min(found, COUNT_LIMIT), capped or found > COUNT_LIMIT)
