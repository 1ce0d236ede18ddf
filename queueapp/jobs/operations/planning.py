"""Plan an operation: what it would find, counted within bounds. Nothing is changed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from queueapp.jobs import control
from queueapp.jobs.database import run
from queueapp.jobs.operations.canary import Terms
from queueapp.jobs.operations.state import Operation, find, scope_of, written_plan
from queueapp.jobs.operations.walk import Counts, Place, count, first_of, statuses_of
from queueapp.jobs.queries.filters import JobFilter
from queueapp.jobs.status import Event

COUNT_S = 1.0
SAMPLE_S = 0.5

_HORIZON = """
SELECT pg_current_snapshot()::text AS snapshot, coalesce((SELECT max(id) FROM jobs), 0) AS upto
"""


@dataclass(frozen=True)
class Survey:
    """What a verb would find at one moment: where, how many, and what was visible then."""

    place: Place
    counts: Counts
    snapshot: str


def survey(session: Session, verb: str, where: JobFilter) -> Survey:
    """Look at what ``verb`` would find; ``where`` has a status that it can move, or none.

    In a repeatable-read transaction the counts are of just those jobs that may be moved then.
    """
    horizon = run(session, _HORIZON)[0]
    where = replace(where, status=statuses_of(verb, where.status))
    place = Place(verb, where, after=0, upto=horizon.upto)
    return Survey(place, count(session, place, seconds=COUNT_S), horizon.snapshot)


def plan(
    session: Session,
    found: Survey,
    *,
    how: Mapping[str, Any],
    actor: str,
    reason: str,
    canary: Terms | None = None,
) -> Operation:
    """Write down what was found, and what is to be done to it.

    ``canary``, of a retry: a few jobs go ahead, the rest follows only if they succeed.
    """
    operation_id = secrets.token_hex(8)
    control.record(
        session,
        Event.OP_PLANNED,
        scope=scope_of(operation_id),
        actor=actor,
        reason=reason,
        data=written_plan(found.place, how, found.counts, found.snapshot, canary),
    )
    return find(session, operation_id)


def left_of(session: Session, operation: Operation) -> Counts:
    """How many jobs it would still find; some may have changed since the plan, and be skipped."""
    return count(session, operation.place, seconds=COUNT_S)


def sample_of(session: Session, operation: Operation, limit: int) -> list[int]:
    """The ids of the jobs that it would move next."""
    return first_of(session, operation.place, limit, seconds=SAMPLE_S)
