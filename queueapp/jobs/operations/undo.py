"""The jobs that an operation has moved, and the way back for those that stand where it left them.

The lines of its batches name its jobs, so each look is at one line and the jobs that it names. What
a job was before stands in its own line of the ledger. Only where that line is still the last one
said of the job is it moved back: what anything has happened to since stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Any, Unpack

from sqlalchemy import Row

from queueapp.jobs import control, transitions
from queueapp.jobs.database import Database, run
from queueapp.jobs.operations.walk import Counts, Sample, Tally
from queueapp.jobs.status import Event, Status
from queueapp.jobs.transitions import By, Moved

UNDO = "undo"
# The line that each verb has left, where there is a way back from it.
LEFT = {
    "cancel": Event.CANCELLED,
    "hold": Event.HELD,
    "unhold": Event.UNHELD,
    "reschedule": Event.RESCHEDULED,
    "run-now": Event.RESCHEDULED,
}
# Why a job is left alone.
CHANGED, ASKED_TO_STOP = "changed", "asked_to_stop"

# The next line of a batch: a probe for each name. ``since`` leaves out the days before the plan.
_NEXT = """
SELECT l.id, l.jobs FROM unnest(ARRAY['op_batch', 'op_done']) AS n(event)
CROSS JOIN LATERAL (
  SELECT e.id, e.data->'jobs' AS jobs FROM job_events e
  WHERE e.job_id IS NULL AND e.event = n.event AND e.scope = %(scope)s
    AND e.created_at >= %(since)s::timestamptz AND e.id > %(after)s AND e.id <= %(upto)s
  ORDER BY e.id LIMIT 1
) l
ORDER BY l.id LIMIT 1
"""

_END = """
SELECT max(l.id) AS upto, coalesce(bool_and(l.named), false) AS named
FROM unnest(ARRAY['op_batch', 'op_done']) AS n(event)
CROSS JOIN LATERAL (
  SELECT e.id, e.data ? 'jobs' AS named FROM job_events e
  WHERE e.job_id IS NULL AND e.event = n.event AND e.scope = %(scope)s
    AND e.created_at >= %(since)s::timestamptz
  ORDER BY e.id DESC LIMIT 1
) l
"""

# A late result that was refused has changed nothing, nor has a clone.
_OWN = """
SELECT a.id, l.event, l.from_status, l.to_status, l.data->'was'->>'held_for' AS held_for,
  l.data->'was'->>'priority' AS priority, l.data->'was'->>'available_at' AS available_at
FROM unnest(%(ids)s::bigint[]) AS a(id)
CROSS JOIN LATERAL (
  SELECT e.event, e.from_status, e.to_status, e.data FROM job_events e
  WHERE e.job_id = a.id AND e.created_at >= %(since)s::timestamptz
    AND e.event NOT IN ('stale_write_rejected', 'cloned')
  ORDER BY e.id DESC LIMIT 1
) l
WHERE l.data->>'operation' = %(operation)s
ORDER BY a.id
"""

_LOCK = """
SELECT id FROM jobs WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""

_KINDS = "SELECT id, kind FROM jobs WHERE id = ANY(%(ids)s::bigint[])"


@dataclass(frozen=True)
class Trail:
    """The lines of an operation's batches above ``after`` and up to ``upto``.

    ``verb``: what it has done to its jobs; ``since``: the ledger has no line of it before.
    """

    operation: str
    verb: str
    since: datetime
    after: int = 0
    upto: int = 0


def end_of(database: Database, trail: Trail) -> int | None:
    """The last line of its batches; None where they do not name their jobs."""
    [row] = run(database, _END, scope=f"op:{trail.operation}", since=trail.since)
    return row.upto if row.named else None


def lock_next(database: Database, trail: Trail, *, seconds: float) -> tuple[list[int], int]:
    """Lock the jobs of the next batch; their ids, and the line up to which all had their turn.

    Rows that somebody else has locked are left out. There may be none where a look of so many
    ``seconds`` ends, and more beyond.
    """
    deadline = monotonic() + seconds
    while trail.after < trail.upto:
        ids, trail = _next(database, trail)
        locked = [row.id for row in run(database, _LOCK, ids=ids)] if ids else []
        if locked or monotonic() > deadline:
            return locked, trail.after
    return [], trail.after


def move(database: Database, trail: Trail, ids: Sequence[int], **by: Unpack[By]) -> list[Moved]:
    """Move back those of ``ids``, which must be locked, that stand where the operation left them.

    What the ledger says is asked once they are locked: nothing can be said of them meanwhile.
    """
    own = _left(trail, _own(database, trail, ids)) if ids else []
    back = [row.id for row in own]
    if not back:
        return []
    if trail.verb == "cancel":
        held_for = _held_for(database, own)
        statuses = [Status.HELD if why else Status.QUEUED for why in held_for]
        return transitions.restore(database, back, statuses=statuses, held_for=held_for, **by)
    if trail.verb == "hold":
        return transitions.unhold(database, back, held_for="job", **by)
    if trail.verb == "unhold":
        return transitions.hold(database, back, **by)
    priorities = [int(row.priority) for row in own]
    due = [row.available_at for row in own]
    return transitions.put_back(database, back, priorities=priorities, available_at=due, **by)


def _held_for(database: Database, own: Sequence[Row[Any]]) -> list[str | None]:
    """What for each is held again; None: it waits. So does what was held with a kind that is free.

    Housekeeping would bring such a job back as well, but only with its next look at all kinds.
    """
    found = [(row.held_for or "job") if row.from_status == Status.HELD else None for row in own]
    with_kind = [row.id for row, why in zip(own, found, strict=True) if why == "kind"]
    if not with_kind:
        return found
    on_hold = control.in_force(database).held_kinds
    free = {row.id for row in run(database, _KINDS, ids=with_kind) if row.kind not in on_hold}
    return [None if row.id in free else why for row, why in zip(own, found, strict=True)]


def count(
    database: Database,
    trail: Trail,
    *,
    seconds: float,
    most: int | None = None,
    seen: Tally | None = None,
) -> Tally:
    """Count the jobs that would be moved back and the others, no longer than ``seconds``.

    Stops behind the batch with which there are more than ``most`` of them.
    """
    seen = seen or Tally()
    back: Counter[str] = Counter(seen.counts.by_status)
    others: Counter[str] = Counter(seen.others.by_status)
    deadline = monotonic() + seconds
    while trail.after < trail.upto:
        ids, trail = _next(database, trail)
        own = _own(database, trail, ids)
        for row in (left := _left(trail, own)):
            back[row.to_status] += 1
        others[ASKED_TO_STOP] += len(own) - len(left)
        others[CHANGED] += len(ids) - len(own)
        if monotonic() > deadline or (most is not None and back.total() > most):
            break
    whole = trail.after >= trail.upto
    if most is not None and back.total() > most:
        whole = False
        back[back.most_common(1)[0][0]] -= back.total() - most
    return Tally(Counts(dict(+back), whole), Counts(dict(+others), whole), trail.after)


def first_of(database: Database, trail: Trail, limit: int, *, seconds: float) -> Sample:
    """The first jobs that would be moved back, ``limit`` at most, in a look of so many seconds."""
    deadline = monotonic() + seconds
    found: list[int] = []
    while trail.after < trail.upto and len(found) < limit:
        ids, trail = _next(database, trail)
        found += [row.id for row in _left(trail, _own(database, trail, ids))]
        if monotonic() > deadline:
            break
    return Sample(found[:limit], whole=len(found) >= limit or trail.after >= trail.upto)


def _next(database: Database, trail: Trail) -> tuple[list[int], Trail]:
    """The jobs that the next line names, and the trail behind it."""
    where = {"scope": f"op:{trail.operation}", "since": trail.since}
    rows = run(database, _NEXT, **where, after=trail.after, upto=trail.upto)
    if not rows:
        return [], replace(trail, after=trail.upto)
    return rows[0].jobs or [], replace(trail, after=rows[0].id)


def _own(database: Database, trail: Trail, ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Of those of ``ids`` whose last line is the operation's own: that line."""
    where = {"since": trail.since, "operation": trail.operation}
    return run(database, _OWN, **where, ids=list(ids)) if ids else []


def _left(trail: Trail, own: Sequence[Row[Any]]) -> list[Row[Any]]:
    """The lines from which there is a way back: a request to stop may have been heard."""
    return [row for row in own if row.event == LEFT[trail.verb]]
