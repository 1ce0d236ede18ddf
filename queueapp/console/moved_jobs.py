"""The jobs that an operation has moved, as they are now: how many stand where, and some of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from queueapp.console.appearance import shown_status
from queueapp.console.filters import at_least
from queueapp.console.readings import Reading, tried
from queueapp.jobs import operations, queries
from queueapp.jobs.operations import Mark, Operation
from queueapp.jobs.queries import JobFilter, View
from queueapp.jobs.status import FINAL, Status

ROWS = 50
# First what has come of them, then what is open.
FATES = (*FINAL, Status.RUNNING, Status.QUEUED, View.RETRYING, Status.HELD)
OPEN = (Status.QUEUED, Status.RUNNING)


def fates_of(session: Session, made: Operation) -> Reading[list[tuple[str, str]]]:
    """The statuses in which they stand, each with its number; ``gone``: retention removed them."""
    if not made.is_over or not made.moved:
        return Reading([])
    split = tried(session, queries.split_jobs, JobFilter(operation=made.id))
    if split.value is None:
        return Reading(None, split.reason)
    found = {name: split.value.of(name) for name in FATES}
    told = [(str(name), at_least(one)) for name, one in found.items() if one.count]
    gone = made.moved - sum(found[status].count for status in Status)
    if gone > 0 and not split.value.capped:
        told.append(("gone", f"{gone:,}"))
    return Reading(told)


def rows_of(session: Session, made: Operation, now: datetime, place: Mark | None) -> Reading[Any]:
    """Some of them, each with its row as it is now, and where the next are."""
    if not made.is_over or not made.moved:
        return Reading(([], None))
    found = tried(session, operations.moved_by, made, after=place, limit=ROWS)
    if found.value is None:
        return Reading(None, found.reason)
    ids, more = found.value
    heads = {job.id: job for job in queries.heads_of(session, ids)}
    rows = [(i, heads.get(i), i in heads and shown_status(heads[i], now)) for i in ids]
    return Reading((rows, more))
