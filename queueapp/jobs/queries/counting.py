"""How many jobs a filter finds, up to a bound: a count never reads more than a page or two does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy import BigInteger, ColumnElement, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job
from queueapp.jobs.queries.bounds import COUNT_LIMIT, SCAN_LIMIT
from queueapp.jobs.queries.candidates import Candidates, find_candidates
from queueapp.jobs.queries.filters import JobFilter, View, conditions, has_columns
from queueapp.jobs.status import Status


@dataclass(frozen=True)
class Counted:
    """``capped``: there may be more, for the count or what it looked at has come to its bound."""

    count: int
    capped: bool


@dataclass(frozen=True)
class Split:
    """How the jobs of a filter stand, by statuses and views; what is in none is missing.

    ``capped``: those statuses of which there may be more, ``all`` of them unless an index tells.
    """

    counts: Mapping[str, int]
    capped: frozenset[str] = frozenset()

    def of(self, name: str) -> Counted:
        """How many stand in a status or a view."""
        return Counted(self.counts.get(name, 0), name in self.capped)


# What a filter may be split into.
PARTS = (*Status, *View)


def split_jobs(session: Session, where: JobFilter) -> Split:
    """Count the jobs of a filter by their status, whichever it asks for.

    No more rows are looked at than for one page of a list: where no index knows the filter, the
    newest SCAN_LIMIT. Those that are failed alike are counted by their own index.
    """
    where = replace(where, status=(), view=None)
    found = find_candidates(session, where)
    if found is not None:
        among = [Job.id == any_(literal(found.ids, ARRAY(BigInteger)))]
        return _split(session, [*among, *conditions(where)], capped=found.many)
    lowest, older = _newest(session)
    split = _split(session, [Job.id >= lowest, *conditions(where)], capped=older)
    if where.fingerprint is None or not older:
        return split
    failed = count_jobs(session, replace(where, status=(Status.FAILED,)))
    capped = split.capped - {Status.FAILED} | ({str(Status.FAILED)} if failed.capped else set())
    return Split({**split.counts, Status.FAILED: failed.count}, frozenset(capped))


def _split(session: Session, where: list[ColumnElement[bool]], *, capped: bool) -> Split:
    later = Job.available_at > func.statement_timestamp()
    of_later = func.count().filter(later)
    of_tried = func.count().filter(later, Job.attempts > 0)
    stmt = select(Job.status, func.count(), of_later, of_tried).where(*where).group_by(Job.status)
    counts: dict[str, int] = {}
    for status, count, scheduled, retrying in session.execute(stmt):
        counts[status] = count
        if status == Status.QUEUED:
            counts |= {View.DUE: count - scheduled, View.SCHEDULED: scheduled}
            counts[View.RETRYING] = retrying
    return Split(counts, frozenset(map(str, PARTS) if capped else ()))


def count_jobs(session: Session, where: JobFilter) -> Counted:
    """Count the jobs of a filter, COUNT_LIMIT at most, among the rows that a list would look at."""
    found = find_candidates(session, where)
    if found is not None:
        return _among(session, where, found)
    if where == JobFilter():
        return _counted(_count(session, []), capped=False)
    lowest, older = _newest(session)
    return _counted(_count(session, [Job.id >= lowest, *conditions(where)]), capped=older)


def _newest(session: Session) -> tuple[int, bool]:
    """The lowest of the newest SCAN_LIMIT ids, and whether there are any below it."""
    newest = select(Job.id).order_by(Job.id.desc()).limit(SCAN_LIMIT).subquery()
    lowest = session.scalar(select(func.min(newest.c.id))) or 0
    return lowest, session.scalar(select(Job.id).where(Job.id < lowest).limit(1)) is not None


def _among(session: Session, where: JobFilter, found: Candidates) -> Counted:
    if not has_columns(where):
        return _counted(len(found.ids), capped=found.many)
    among = Job.id == any_(literal(found.ids, ARRAY(BigInteger)))
    return _counted(_count(session, [among, *conditions(where)]), capped=found.many)


def _count(session: Session, where: list[ColumnElement[bool]]) -> int:
    rows = select(literal(1)).select_from(Job).where(*where).limit(COUNT_LIMIT + 1).subquery()
    return session.scalar(select(func.count()).select_from(rows)) or 0


def _counted(found: int, *, capped: bool) -> Counted:
    return Counted(min(found, COUNT_LIMIT), capped or found > COUNT_LIMIT)
