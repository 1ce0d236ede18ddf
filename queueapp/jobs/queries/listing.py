"""Jobs one by one and page by page, newest first, without their bodies unless asked for them.

Where an index knows which rows may match, and they are few enough, a page is exact. Otherwise it is
chosen from the newest ``SCAN_LIMIT`` rows below the cursor, and says so (``cut``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session, load_only

from queueapp.errors import JobNotFound
from queueapp.jobs.models import Job
from queueapp.jobs.queries.bounds import LARGEST_ID, SCAN_LIMIT
from queueapp.jobs.queries.candidates import Candidates, find_candidates
from queueapp.jobs.queries.filters import JobFilter, conditions, has_columns

# What a list shows of a job: everything but the bodies (payload, result, error text).
LISTED = (
    Job.id, Job.kind, Job.status, Job.priority, Job.available_at, Job.attempts, Job.max_attempts,
    Job.handbacks, Job.held_for, Job.locked_by, Job.lease_expires_at, Job.claimed_at,
    Job.cancel_requested_at, Job.progress, Job.progress_note, Job.error_class,
    Job.error_fingerprint, Job.producer, Job.idempotency_key, Job.timeout_s, Job.created_at,
    Job.started_at, Job.finished_at,
)  # fmt: skip

# Ids that may match are looked up so many at a time.
PART = 2_000

Columns: TypeAlias = Sequence[InstrumentedAttribute[Any]]


@dataclass(frozen=True)
class Page:
    """One page of rows, newest first.

    ``older`` and ``newer``: ids to pass as ``before`` and ``after`` for the pages beside this one,
    None at the ends. ``cut``: rows beyond those looked at may match; ``older``, if there, goes on
    from where the look ended, and on the way up ``newer`` does. ``scanned``: no index could tell.
    ``beyond``: of a look that found nothing, a job further down that may match, as an index knows;
    between them nobody has looked.
    """

    rows: Sequence[Any]
    older: int | None
    cut: bool = field(default=False)
    newer: int | None = field(default=None)
    scanned: bool = field(default=False)
    beyond: int | None = field(default=None)


def get_job(session: Session, job_id: int) -> Job:
    """Load one job whole. Raises JobNotFound."""
    job = session.get(Job, job_id, populate_existing=True) if 0 < job_id <= LARGEST_ID else None
    if job is None:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    return job


def get_head(session: Session, job_id: int) -> Job:
    """Load one job without its bodies (see ``bodies_of``). Raises JobNotFound."""
    stmt = (
        select(Job)
        .options(load_only(*LISTED, Job.lease_token, Job.error_message, raiseload=True))
        .where(Job.id == job_id)
        .execution_options(populate_existing=True)
    )
    job = session.scalars(stmt).one_or_none() if 0 < job_id <= LARGEST_ID else None
    if job is None:
        raise JobNotFound(f"there is no job {job_id}", job_id=job_id)
    return job


def heads_of(session: Session, ids: Sequence[int], *, columns: Columns = LISTED) -> list[Job]:
    """Those of ``ids`` that exist, in the order of their ids, without their bodies unless asked."""
    among = Job.id == any_(literal(list(ids), ARRAY(BigInteger)))
    return _fetch(session, [among], len(ids), columns, upwards=True)[::-1]


def list_jobs(
    session: Session,
    where: JobFilter,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = 50,
    columns: Columns = LISTED,
    scan: bool = False,
) -> Page:
    """List jobs newest first, with nothing but ``columns`` and the id.

    ``before``: only ids below it, from the newest of them on. ``after``: the ids next above it.
    ``scan``: ask no index; for whoever reads on where the page before was ``scanned``.
    """
    narrowed = None if scan else find_candidates(session, where)
    if narrowed is not None and not narrowed.many:
        return _from_candidates(session, where, narrowed.ids, before, after, limit, columns)
    if after is not None:
        page = _scanned_upwards(session, where, after, limit, columns)
    else:
        page = _scanned(session, where, before, limit, columns, narrowed or Candidates([]))
    return replace(page, scanned=True, beyond=_beyond(page, narrowed))


def _beyond(page: Page, narrowed: Candidates | None) -> int | None:
    """The newest of some that may match. The order is that of ids, which no index of a status has:
    all that could be said at once is where there is one of them.
    """
    if page.rows or page.older is None or narrowed is None:
        return None
    return next((i for i in narrowed.ids if i < page.older), None)


def _from_candidates(
    session: Session,
    where: JobFilter,
    found: list[int],
    before: int | None,
    after: int | None,
    limit: int,
    columns: Columns,
) -> Page:
    ids = [i for i in found if (before is None or i < before) and (after is None or i > after)]
    # One more than asked for, which tells whether there is another page.
    first = ids[-limit - 1 :] if after is not None else ids[: limit + 1]
    chosen = ids if has_columns(where) else first
    rows = _matching(session, where, chosen, limit + 1, columns, upwards=after is not None)
    page = _page(rows, before, after, limit)
    if len(rows) > limit or len(chosen) == len(ids):
        return page
    # Some have left the status since the index was read: the page is thin, not the last one.
    return replace(page, newer=first[0]) if after is not None else replace(page, older=first[-1])


def _matching(
    session: Session,
    where: JobFilter,
    ids: list[int],
    limit: int,
    columns: Columns,
    *,
    upwards: bool,
) -> list[Job]:
    """Those of ``ids`` that match, as ``_fetch`` has them: part by part, until there are enough.

    Most pages are full after the first part; the rows of all of them would be read else.
    """
    rows: list[Job] = []
    parts = [ids[start : start + PART] for start in range(0, len(ids), PART)]
    for part in reversed(parts) if upwards else parts:
        among = Job.id == any_(literal(part, ARRAY(BigInteger)))
        wanted = limit - len(rows)
        found = _fetch(session, [among, *conditions(where)], wanted, columns, upwards=upwards)
        rows = found + rows if upwards else rows + found
        if len(rows) == limit:
            break
    return rows


def _scanned(
    session: Session,
    where: JobFilter,
    before: int | None,
    limit: int,
    columns: Columns,
    among: Candidates,
) -> Page:
    below = [Job.id < before] if before is not None else []
    if among.highest < LARGEST_ID:
        below.append(Job.id <= among.highest)
    if where == JobFilter():
        return _page(_fetch(session, below, limit + 1, columns), before, None, limit)
    window = select(Job.id).where(*below).order_by(Job.id.desc()).limit(SCAN_LIMIT).subquery()
    lowest = session.scalar(select(func.min(window.c.id))) or 0
    rows = _fetch(session, [*below, Job.id >= lowest, *conditions(where)], limit + 1, columns)
    if len(rows) <= limit and lowest > among.lowest and _any(session, Job.id < lowest):
        return Page(rows, lowest, cut=True, newer=_top(rows) if before is not None else None)
    return _page(rows, before, None, limit)


def _scanned_upwards(
    session: Session, where: JobFilter, after: int, limit: int, columns: Columns
) -> Page:
    above, highest = [Job.id > after], None
    if where != JobFilter():
        window = select(Job.id).where(*above).order_by(Job.id).limit(SCAN_LIMIT).subquery()
        highest = session.scalar(select(func.max(window.c.id))) or after
        above.append(Job.id <= highest)
    rows = _fetch(session, [*above, *conditions(where)], limit + 1, columns, upwards=True)
    page = _page(rows, None, after, limit)
    if page.newer is None and highest is not None and _any(session, Job.id > highest):
        return replace(page, newer=highest, cut=True)
    return page


def _fetch(
    session: Session,
    where: list[ColumnElement[bool]],
    limit: int,
    columns: Columns,
    *,
    upwards: bool = False,
) -> list[Job]:
    """Up to ``limit`` rows, newest first; with ``upwards`` the oldest ones that match."""
    stmt = (
        select(Job)
        .options(load_only(*columns, raiseload=True))
        .where(*where)
        .order_by(Job.id if upwards else Job.id.desc())
        .limit(limit)
        .execution_options(populate_existing=True)
    )
    rows = list(session.scalars(stmt))
    return rows[::-1] if upwards else rows


def _page(rows: list[Job], before: int | None, after: int | None, limit: int) -> Page:
    more = len(rows) > limit
    if after is not None:
        shown = rows[-limit:]
        top = _top(shown) if more else None
        return Page(shown, shown[-1].id if shown else None, newer=top)
    shown = rows[:limit]
    newer = _top(shown) if before is not None else None
    return Page(shown, shown[-1].id if more else None, newer=newer)


def _top(rows: list[Job]) -> int | None:
    return rows[0].id if rows else None


def _any(session: Session, where: ColumnElement[bool]) -> bool:
    return bool(session.scalar(select(Job.id).where(where).limit(1)))
