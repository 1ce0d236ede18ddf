"""What the ledger says of an operation: its plan, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from queueapp.errors import OperationNotFound
from queueapp.jobs.database import Database, run
from queueapp.jobs.operations.canary import Canary, Terms, read_canary, written_terms
from queueapp.jobs.operations.walk import Counts, Place
from queueapp.jobs.queries.filters import JobFilter, read_filter, written_filter
from queueapp.jobs.status import Event

State = Literal["planned", "canary", "applying", "stopped", "done"]

# The newest line of each name: a probe each, however many batches there were.
_LINES = """
SELECT e.id, e.event, e.actor, e.reason, e.data, e.created_at
FROM unnest(ARRAY['op_planned', 'op_canary', 'op_batch', 'op_stopped', 'op_done']) AS n(event)
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
    ``canary``: None for one that waits for nothing. ``end_reason``: why it was stopped.
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
    canary: Canary | None
    end_reason: str | None
    changed_by: str
    changed_at: datetime

    @property
    def is_over(self) -> bool:
        """Whether it moves no more jobs."""
        return self.state in ("stopped", "done")

    @property
    def is_on_trial(self) -> bool:
        """Whether it moves nothing until its canary jobs are decided on."""
        return self.state == "canary" and self.canary is not None and self.canary.is_on_trial

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
    names = (Event.OP_DONE, Event.OP_BATCH, Event.OP_CANARY)
    progress = next((lines[name] for name in names if name in lines), None)
    come = progress.data if progress else {"after": 0, "moved": 0}
    return Operation(
        id=operation_id,
        state=_state(lines),
        reason=planned.reason,
        planned_by=planned.actor,
        planned_at=planned.created_at,
        after=come["after"],
        moved=come["moved"],
        skipped=come.get("skipped"),
        canary=read_canary(planned.data, lines.get(Event.OP_CANARY)),
        end_reason=lines[Event.OP_STOPPED].reason if Event.OP_STOPPED in lines else None,
        changed_by=newest.actor,
        changed_at=newest.created_at,
        **read_plan(planned.data),
    )


def _state(lines: Mapping[Event, Any]) -> State:
    if Event.OP_DONE in lines:
        return "done"
    if Event.OP_STOPPED in lines:
        return "stopped"
    if Event.OP_BATCH in lines:
        return "applying"
    if Event.OP_CANARY in lines:
        return "applying" if lines[Event.OP_CANARY].data.get("passed") else "canary"
    return "planned"


def written_plan(
    place: Place, how: Mapping[str, Any], counts: Counts, snapshot: str, canary: Terms | None
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
        **({} if canary is None else {"canary": written_terms(canary)}),
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
