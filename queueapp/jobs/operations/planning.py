"""Plan an operation: what it would find, counted in looks of about a second. No job is changed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.orm import Session

from queueapp.errors import NotUndoable, OperationNotFound
from queueapp.jobs import control
from queueapp.jobs.database import Database, run
from queueapp.jobs.operations import undo, walk
from queueapp.jobs.operations.canary import Terms, written_terms
from queueapp.jobs.operations.state import (
    LONGEST_TRANSACTION,
    Operation,
    find,
    key_of,
    scope_of,
    written_tally,
)
from queueapp.jobs.operations.undo import Trail
from queueapp.jobs.operations.undone import Undone, undone_of
from queueapp.jobs.operations.walk import NO_JOBS, Counts, Place, Tally, rest_of, statuses_of
from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.queries.candidates import bounds_of
from queueapp.jobs.queries.filters import JobFilter, written_filter
from queueapp.jobs.status import Event

COUNT_S = 1.0
# What stays as it is is told as far as it can be seen in passing.
OTHERS_S = 0.3
SAMPLE_S = 0.5

_HORIZON = """
SELECT pg_current_snapshot()::text AS snapshot, coalesce((SELECT max(id) FROM jobs), 0) AS upto
"""
# Held until the plan is there: whoever plans with the same key.
_ONE_PLAN = "SELECT pg_advisory_xact_lock(%(key)s::bigint)"

# Why there is no way back from a verb.
NEVER = {
    "retry": "a retry cannot be undone: what has run since has run; those that still wait can be"
    " cancelled",
    "purge": "there is no undo: its jobs are gone; what happened to them is in the ledger",
    undo.UNDO: "an undo is not undone: plan its verb again",
}


@dataclass(frozen=True)
class Survey:
    """What a verb would find at one moment: where, how many, and what was visible then.

    ``asked``: the filter as it was given; ``where``: in the statuses that the verb can move.
    ``start``: no id up to it matches, nor any above ``upto``.
    """

    verb: str
    asked: JobFilter
    where: JobFilter
    upto: int
    tally: Tally
    snapshot: str
    undoes: str | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0

    @property
    def counts(self) -> Counts:
        """The jobs that it can move, as far as they have been counted."""
        return self.tally.counts


def survey(session: Session, verb: str, asked: JobFilter) -> Survey:
    """Look at what ``verb`` would find; ``asked`` has a status that it can move, or none.

    In a repeatable-read transaction the counts are of just those jobs that may be moved then.
    """
    statuses = statuses_of(verb, asked.status)
    if not statuses:
        raise ValueError(f"{verb} moves no job that is {' or '.join(asked.status)}")
    horizon = run(session, _HORIZON)[0]
    where = replace(asked, status=statuses)
    lowest, highest = bounds_of(session, asked)
    start, upto = max(lowest - 1, 0), min(horizon.upto, highest)
    place = Place(verb, where, after=start, upto=upto)
    counts, after = walk.count(session, place, seconds=COUNT_S)
    tally = Tally(counts, _others(session, asked, place), after)
    return Survey(verb, asked, where, upto, tally, horizon.snapshot, start=start)


def _others(session: Session, asked: JobFilter, among: Place) -> Counts:
    """The jobs that were asked for and stay as they are: COUNT_LIMIT of them at most."""
    statuses = rest_of(among.verb, asked.status)
    if not statuses:
        return NO_JOBS
    place = replace(among, where=replace(asked, status=statuses), rest=True)
    return walk.count(session, place, seconds=OTHERS_S, most=COUNT_LIMIT)[0]


def survey_undo(session: Session, origin: Operation) -> Survey:
    """Look at which jobs of ``origin`` can be moved back.

    Raises NotUndoable: there is no way back from its verb, or not yet, or nobody knows its jobs.
    """
    if refusal := why_not_undone(origin, undone_of(session, [origin])[origin.id]):
        raise NotUndoable(refusal, operation=origin.id)
    since = origin.planned_at - LONGEST_TRANSACTION
    trail = Trail(origin.id, origin.verb, since)
    upto = undo.end_of(session, trail)
    if upto is None:
        raise NotUndoable("the ledger does not say which jobs it moved", operation=origin.id)
    tally = undo.count(session, replace(trail, upto=upto), seconds=COUNT_S)
    how = {"verb": origin.verb, "since": since.isoformat()}
    nothing = JobFilter()
    return Survey(undo.UNDO, nothing, nothing, upto, tally, "", origin.id, how)


def why_not_undone(made: Operation, undone: Undone) -> str | None:
    """Why an operation, of which so much is ``undone``, cannot be undone, for people; None if it
    can.
    """
    if made.verb in NEVER:
        return NEVER[made.verb]
    if not made.is_over:
        return "it is not over: stop it first"
    if undone.by and undone.moved >= made.moved:
        return f"it has been undone by {', '.join(undone.by)}: each of its jobs is back"
    if made.moved and made.moved == made.stopping:
        return "all of its jobs ran, and were asked to stop, which cannot be taken back"
    return None if made.moved else "it has moved no job"


def plan(
    session: Session,
    found: Survey,
    *,
    how: Mapping[str, Any],
    actor: str,
    reason: str,
    canary: Terms | None = None,
    key: str | None = None,
    via: str | None = None,
) -> Operation:
    """Write down what was found, and what is to be done to it.

    ``canary``, of a retry: a few jobs go ahead, the rest follows only if they succeed. ``key``: of
    all plans of this actor with the same key the first one counts, and is returned. ``via``: the
    surface that it was made on.
    """
    operation_id = secrets.token_hex(8) if key is None else id_of(actor, key)
    if key is not None and (made := _planned(session, operation_id)):
        return made
    control.record(
        session,
        Event.OP_PLANNED,
        scope=scope_of(operation_id),
        actor=actor,
        reason=reason,
        data={**written_plan(found, how, canary), **({"via": via} if via else {})},
    )
    return find(session, operation_id)


def planned_before(database: Database, actor: str, key: str) -> Operation | None:
    """What ``actor`` has planned with ``key`` already."""
    try:
        return find(database, id_of(actor, key))
    except OperationNotFound:
        return None


def id_of(actor: str, key: str) -> str:
    """The id of the operation that ``actor`` plans with ``key``: the same each time."""
    return hashlib.sha256(f"{actor}\n{key}".encode()).hexdigest()[:16]


def _planned(session: Session, operation_id: str) -> Operation | None:
    """The operation, once nobody else is about to plan it."""
    run(session, _ONE_PLAN, key=key_of(operation_id, end=True))
    try:
        return find(session, operation_id)
    except OperationNotFound:
        return None


def written_plan(found: Survey, how: Mapping[str, Any], canary: Terms | None) -> dict[str, Any]:
    """The plan as the ledger keeps it."""
    how = {**found.how, **how}
    due = how.get("available_at")
    return {
        "verb": found.verb,
        "how": {**how, "available_at": due.isoformat()} if due else how,
        "filter": written_filter(found.where),
        "asked": written_filter(found.asked),
        "snapshot": found.snapshot,
        "upto": found.upto,
        **({"start": found.start} if found.start else {}),
        **written_tally(found.tally),
        **({} if found.undoes is None else {"undoes": found.undoes}),
        **({} if canary is None else {"canary": written_terms(canary)}),
    }


def count_on(database: Database, made: Operation) -> Tally:
    """Go on counting, for about a second."""
    seen = made.tally
    if made.trail is not None:
        trail = replace(made.trail, after=seen.after)
        return undo.count(database, trail, seconds=COUNT_S, seen=seen)
    place = replace(made.place, after=seen.after)
    counts, after = walk.count(database, place, seconds=COUNT_S, seen=seen.counts.by_status)
    return Tally(counts, seen.others, after)


def left_of(session: Session, made: Operation) -> Counts:
    """How many jobs it would still find; some may have changed since the plan, and be skipped."""
    if made.trail is not None:
        return undo.count(session, made.trail, seconds=COUNT_S, most=COUNT_LIMIT).counts
    return walk.count(session, made.place, seconds=COUNT_S, most=COUNT_LIMIT)[0]


def sample_of(session: Session, made: Operation, limit: int) -> walk.Sample:
    """The jobs that it would move next."""
    # Where all are found, nobody looks on.
    limit = min(limit, made.counts.total)
    if made.trail is not None:
        return undo.first_of(session, made.trail, limit, seconds=SAMPLE_S)
    return walk.first_of(session, made.place, limit, seconds=SAMPLE_S)
