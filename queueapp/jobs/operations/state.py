"""What the ledger says of an operation: its plan, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from queueapp.errors import OperationNotFound
from queueapp.jobs.database import Database, run
from queueapp.jobs.operations.walk import Counts, Place
from queueapp.jobs.queries.filters import JobFilter, read_filter, written_filter
from queueapp.jobs.status import Event

State = Literal["planned", "applying", "stopped", "done"]

# The newest line of each name: a probe each, however many batches there were.
_LINES = """
SELECT e.id, e.event, e.actor, e.reason, e.data, e.created_at
FROM unnest(ARRAY['op_planned', 'op_batch', 'op_stopped', 'op_done']) AS n(event)
CROSS JOIN LATERAL (
  SELECT id, event, actor, reason, data, created_at FROM job_events
  WHERE job_id IS NULL AND event = n.event AND scope = %(scope)s
  ORDER BY id DESC LIMIT 1
) e
"""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation as it stands.

    ``how``: what the verb is told. ``snapshot``: what was visible to the plan, ``upto`` the highest
    id then. ``after``: the jobs up to this id have had their turn. ``moved``: how many were moved;
    ``skipped``: how many of the plan were not, known at the end of a plan that was counted whole.
    """

    id: str
    state: State
    verb: str
    how: Mapping[str, Any]
    where: JobFilter
    reason: str
    planned_by: str
    planned_at: datetime
    counts: Counts
    snapshot: str
    upto: int
    after: int
    moved: int
    skipped: int | None
    changed_by: str
    changed_at: datetime

    @property
    def is_over(self) -> bool:
        """Whether it moves no more jobs."""
        return self.state in ("stopped", "done")

    @property
    def place(self) -> Place:
        """Where its jobs are looked for next."""
        return Place(self.verb, self.where, self.after, self.upto)


def scope_of(operation_id: str) -> str:
    """The scope of its lines in the ledger."""
    return f"op:{operation_id}"


def find(database: Database, operation_id: str) -> Operation:
    """Read an operation. Raises OperationNotFound."""
    rows = run(database, _LINES, scope=scope_of(operation_id))
    lines = {Event(row.event): row for row in rows}
    if Event.OP_PLANNED not in lines:
        raise OperationNotFound(f"there is no operation {operation_id}", operation=operation_id)
    planned = lines[Event.OP_PLANNED]
    newest = max(lines.values(), key=lambda line: line.id)
    progress = lines.get(Event.OP_DONE) or lines.get(Event.OP_BATCH)
    come = progress.data if progress else {"after": 0, "moved": 0}
    return Operation(
        id=operation_id,
        state=_state(set(lines)),
        reason=planned.reason,
        planned_by=planned.actor,
        planned_at=planned.created_at,
        after=come["after"],
        moved=come["moved"],
        skipped=come.get("skipped"),
        changed_by=newest.actor,
        changed_at=newest.created_at,
        **read_plan(planned.data),
    )


def _state(events: set[Event]) -> State:
    if Event.OP_DONE in events:
        return "done"
    if Event.OP_STOPPED in events:
        return "stopped"
    return "applying" if Event.OP_BATCH in events else "planned"


def written_plan(
    place: Place, how: Mapping[str, Any], counts: Counts, snapshot: str
) -> dict[str, Any]:
    """The plan as the ledger keeps it."""
    due = how.get("available_at")
    return {
        "verb": place.verb,
        "how": {**how, "available_at": due.isoformat()} if due else dict(how),
        "filter": written_filter(place.where),
        "counts": counts.by_status,
        "whole": counts.whole,
        "snapshot": snapshot,
        "upto": place.upto,
    }


def read_plan(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an ``Operation`` that the plan knows."""
    how = dict(data["how"])
    if how.get("available_at"):
        how["available_at"] = datetime.fromisoformat(how["available_at"])
    return {
        "verb": data["verb"],
        "how": how,
        "where": read_filter(data["filter"]),
        "counts": Counts(data["counts"], data["whole"]),
        "snapshot": data["snapshot"],
        "upto": data["upto"],
    }
