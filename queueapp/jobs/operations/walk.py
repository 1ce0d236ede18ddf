"""Which jobs an operation finds, a window of ids at a time, in the order of their ids.

Where indexes know all that may match, the window is what they name; else it is the next
``SCAN_LIMIT`` rows. Either way a look is bounded, and the next one goes on from its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic

from sqlalchemy import BigInteger, ColumnElement, Select, and_, any_, func, literal, not_, select
from sqlalchemy.dialects.postgresql import ARRAY

from queueapp.jobs.database import Database
from queueapp.jobs.models import Job
from queueapp.jobs.operations.verbs import VERBS
from queueapp.jobs.queries.bounds import SCAN_LIMIT
from queueapp.jobs.queries.candidates import find_candidates
from queueapp.jobs.queries.filters import JobFilter, conditions
from queueapp.jobs.status import Status


@dataclass(frozen=True)
class Place:
    """Where jobs are looked for: those that ``where`` finds and ``verb`` can move, with ids above
    ``after`` and up to ``upto``. ``rest``: those that ``where`` finds and ``verb`` cannot move.
    ``many``: so many are left that indexes, which stop at SCAN_LIMIT, are asked in vain.
    """

    verb: str
    where: JobFilter
    after: int
    upto: int
    rest: bool = False
    many: bool = False


@dataclass(frozen=True)
class Counts:
    """How many jobs were found, by status; at least so many unless it is the ``whole`` number."""

    by_status: dict[str, int]
    whole: bool

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_status.values())


NO_JOBS = Counts({}, whole=True)


@dataclass(frozen=True)
class Tally:
    """What has been counted up to the place ``after``: ``counts`` of the jobs that can be moved,
    ``others`` of those that stay as they are.
    """

    counts: Counts = field(default=NO_JOBS)
    others: Counts = field(default=NO_JOBS)
    after: int = 0


@dataclass(frozen=True)
class Sample:
    """The first jobs. Not ``whole``: the look ended before there were as many as asked for."""

    ids: list[int]
    whole: bool = True


@dataclass(frozen=True)
class _Window:
    """The rows of ``among``, which end at the id ``end``. ``named``: indexes know them."""

    among: list[ColumnElement[bool]]
    end: int
    named: bool = True


def statuses_of(verb: str, asked: tuple[Status, ...]) -> tuple[Status, ...]:
    """The statuses asked for, all if none, that the verb can move."""
    able = VERBS[verb].statuses
    return tuple(status for status in able if status in asked) if asked else able


def rest_of(verb: str, asked: tuple[Status, ...]) -> tuple[Status, ...]:
    """The statuses asked for, all if none, of which ``verb`` leaves some jobs alone."""
    bulk = VERBS[verb]
    whole = {status for status in bulk.statuses if status not in bulk.partly}
    return tuple(status for status in asked or tuple(Status) if status not in whole)


def lock_next(
    database: Database, place: Place, limit: int, *, seconds: float
) -> tuple[list[int], int]:
    """Lock the next jobs and return their ids, and the id up to which all have had their turn.

    Rows that somebody else has locked are left out. There may be none where a look of so many
    ``seconds`` ends, and more beyond.
    """
    deadline, named = monotonic() + seconds, not place.many
    while place.after < place.upto:
        window = _window(database, place, named=named)
        named = window.named
        stmt = _next(place, window, limit).with_for_update(skip_locked=True, key_share=True)
        ids = list(database.scalars(stmt))
        place = replace(place, after=ids[-1] if len(ids) == limit else window.end)
        if ids or monotonic() > deadline:
            return ids, place.after
    return [], place.after


def first_of(database: Database, place: Place, limit: int, *, seconds: float) -> Sample:
    """The ids of the jobs that come first, ``limit`` at most, within a look of so many seconds."""
    deadline, named = monotonic() + seconds, not place.many
    ids: list[int] = []
    while place.after < place.upto and len(ids) < limit:
        window = _window(database, place, named=named)
        named = window.named
        ids += database.scalars(_next(place, window, limit - len(ids)))
        place = replace(place, after=window.end)
        if monotonic() > deadline:
            break
    return Sample(ids, whole=len(ids) == limit or place.after >= place.upto)


def _next(place: Place, window: _Window, limit: int) -> Select[int]:
    return select(Job.id).where(*window.among, *_matching(place)).order_by(Job.id).limit(limit)


def count(
    database: Database,
    place: Place,
    *,
    seconds: float,
    most: int | None = None,
    seen: Mapping[str, int] | None = None,
) -> tuple[Counts, int]:
    """Count the jobs of ``place`` no longer than ``seconds``, and no more than ``most`` of them.

    Returns what was found, beside what was ``seen`` before, and the id up to which.
    """
    found: Counter[str] = Counter(seen or {})
    deadline, named = monotonic() + seconds, True
    while place.after < place.upto:
        window = _window(database, place, named=named)
        named = window.named
        limit = None if most is None else most - found.total() + 1
        matching = (
            select(Job.status).where(*window.among, *_matching(place)).limit(limit).subquery()
        )
        stmt = select(matching.c.status, func.count()).group_by(matching.c.status)
        for status, number in database.execute(stmt):
            found[status] += number
        if most is not None and found.total() > most:
            # One too many was looked for, to know that there is one.
            found[found.most_common(1)[0][0]] -= 1
            return Counts(dict(found), whole=False), place.after
        place = replace(place, after=window.end)
        if monotonic() > deadline:
            break
    return Counts(dict(found), whole=place.after >= place.upto), place.after


def _matching(place: Place) -> list[ColumnElement[bool]]:
    bulk, found = VERBS[place.verb], conditions(place.where)
    if not place.rest:
        return [*found, *bulk.only]
    return [*found, not_(and_(*conditions(JobFilter(status=bulk.statuses)), *bulk.only))]


def _window(database: Database, place: Place, *, named: bool = True) -> _Window:
    """The next rows to look at; ``named``: ask the indexes for them first."""
    bounds = [Job.id > place.after, Job.id <= place.upto]
    ids = _named_by_indexes(database, place) if named else None
    if ids is not None:
        return _Window([Job.id == any_(literal(ids, ARRAY(BigInteger)))], place.upto)
    rows = select(Job.id).where(*bounds).order_by(Job.id).limit(SCAN_LIMIT).subquery()
    last, number = database.execute(select(func.max(rows.c.id), func.count())).one()
    end = last if number == SCAN_LIMIT else place.upto
    return _Window([Job.id > place.after, Job.id <= end], end, named=False)


def _named_by_indexes(database: Database, place: Place) -> list[int] | None:
    """The ids of ``place`` that may match; None where indexes cannot tell, or name too many."""
    found: list[int] = []
    for status in place.where.status:
        some = find_candidates(database, replace(place.where, status=(status,)))
        if some is None or some.many:
            return None
        found += some.ids
    return sorted({i for i in found if place.after < i <= place.upto})
