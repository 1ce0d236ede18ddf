"""What the ledger says of an operation: its plan, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from queueapp.errors import OperationNotFound
from queueapp.jobs.database import Database, run
from queueapp.jobs.failure import printable
from queueapp.jobs.names import OPERATION
from queueapp.jobs.operations.canary import Canary, read_canary
from queueapp.jobs.operations.undo import Trail
from queueapp.jobs.operations.walk import Counts, Place, Tally
from queueapp.jobs.queries.bounds import SCAN_LIMIT
from queueapp.jobs.queries.filters import JobFilter, read_filter
from queueapp.jobs.status import Event

State = Literal["counting", "planned", "canary", "applying", "stopped", "done"]

# No transaction that a plan can have met is older.
LONGEST_TRANSACTION = timedelta(days=1)

# The newest line of each name: a probe each, however many batches there were. Which jobs a batch
# has moved is asked for by those alone who need it.
_LINES = """
SELECT e.id, e.event, e.actor, e.reason, e.created_at,
  CASE WHEN n.event IN ('op_batch', 'op_done') THEN e.data - 'jobs' ELSE e.data END AS data
FROM unnest(
  ARRAY['op_planned', 'op_counted', 'op_begun', 'op_canary', 'op_batch', 'op_stopped', 'op_done']
) AS n(event)
CROSS JOIN LATERAL (
  SELECT id, actor, event, reason, data, created_at FROM job_events
  WHERE job_id IS NULL AND event = n.event AND scope = %(scope)s
  ORDER BY id DESC LIMIT 1
) e
"""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation as it stands.

    ``how``: what the verb is told. ``where``: of the jobs that were ``asked`` for, those in a
    status that the verb can move. ``counts`` are those that it can move, ``others`` those that it
    leaves alone; ``counted_to``: the id up to which. ``snapshot``: what was visible to the plan,
    ``upto`` the highest id then. ``after``: the jobs up to this id have had their turn. ``moved``:
    how many were moved, ``stopping`` of them running and only asked to stop; ``skipped``: how many
    of the plan were not, known at its end. ``canary``: None for one that waits for nothing.
    ``begun_by``: who confirmed it, ``driven_by`` who of people went on with it last; both None
    until then, and for what an older release has begun.
    ``stopped_by`` and ``end_reason``: who stopped it, and why.

    ``undoes``: of an undo, the operation whose jobs it moves back; its places are then lines of the
    ledger instead of ids.
    """

    id: str
    state: State
    verb: str
    how: Mapping[str, Any]
    where: JobFilter
    asked: JobFilter
    undoes: str | None
    reason: str
    planned_by: str
    planned_at: datetime
    counts: Counts
    others: Counts
    counted_to: int
    snapshot: str
    upto: int
    after: int
    moved: int
    stopping: int
    skipped: int | None
    canary: Canary | None
    begun_by: str | None
    begun_at: datetime | None
    driven_by: str | None
    stopped_by: str | None
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
        many = self.left > SCAN_LIMIT
        return Place(self.verb, self.where, self.after, self.upto, many=many)

    @property
    def trail(self) -> Trail | None:
        """Of an undo, where its jobs are looked for next."""
        if self.undoes is None:
            return None
        since = datetime.fromisoformat(self.how["since"])
        return Trail(self.undoes, self.how["verb"], since, self.after, self.upto)

    @property
    def tally(self) -> Tally:
        """What has been counted, and how far."""
        return Tally(self.counts, self.others, self.counted_to)

    @property
    def left(self) -> int:
        """How many of those counted it has not moved or skipped, or stopped before."""
        return 0 if self.state == "done" else max(0, self.counts.total - self.moved)

    @property
    def is_of_everything(self) -> bool:
        """Whether nothing was asked for: the filter was empty."""
        return self.undoes is None and self.asked == JobFilter()


def scope_of(operation_id: str) -> str:
    """The scope of its lines in the ledger."""
    return f"op:{operation_id}"


def key_of(operation_id: str, *, end: bool = False) -> int:
    """The number of an operation's lock: the id's own 64 bits, signed. ``end``: of another one."""
    number = int(operation_id, 16) ^ int(end)
    return number - 2**64 if number >= 2**63 else number


def known_id(text: str) -> str:
    """The id in an address. Raises OperationNotFound for what cannot be one."""
    if not OPERATION.fullmatch(text):
        raise OperationNotFound(f"there is no operation '{printable(text[:50])}'")
    return text


def find(database: Database, operation_id: str) -> Operation:
    """Read an operation. Raises OperationNotFound."""
    rows = run(database, _LINES, scope=scope_of(operation_id))
    lines = {Event(row.event): row for row in rows}
    if Event.OP_PLANNED not in lines:
        raise OperationNotFound(f"there is no operation {operation_id}", operation=operation_id)
    return told(operation_id, lines)


def told(operation_id: str, lines: Mapping[Event, Any]) -> Operation:
    """The operation that its newest lines tell of, the plan among them."""
    planned = lines[Event.OP_PLANNED]
    newest = max(lines.values(), key=lambda line: line.id)
    stopped = lines.get(Event.OP_STOPPED)
    names = (Event.OP_DONE, Event.OP_BATCH, Event.OP_CANARY)
    progress = next((lines[name] for name in names if name in lines), None)
    start = planned.data.get("start", 0)
    come = progress.data if progress else {"after": start, "moved": 0}
    plan = read_plan(planned.data)
    if Event.OP_COUNTED in lines:
        plan |= read_tally(lines[Event.OP_COUNTED].data)
    return Operation(
        id=operation_id,
        state=_state(lines, counted=plan["counts"].whole),
        reason=planned.reason,
        planned_by=planned.actor,
        planned_at=planned.created_at,
        after=come["after"],
        moved=come["moved"],
        stopping=come.get("stopping", 0),
        skipped=come.get("skipped"),
        canary=read_canary(planned.data, lines.get(Event.OP_CANARY)),
        stopped_by=stopped.actor if stopped else None,
        end_reason=stopped.reason if stopped else None,
        changed_by=newest.actor,
        changed_at=newest.created_at,
        **_begun(lines.get(Event.OP_BEGUN)),
        **plan,
    )


def _begun(line: Any) -> dict[str, Any]:
    """Who began it, by the newest line of those who did and who went on with it."""
    if line is None:
        return dict.fromkeys(("begun_by", "begun_at", "driven_by"))
    first, at = line.data.get("begun_by"), line.data.get("begun_at")
    return {
        "begun_by": first or line.actor,
        "begun_at": datetime.fromisoformat(at) if first else line.created_at,
        "driven_by": line.actor,
    }


def _state(lines: Mapping[Event, Any], *, counted: bool) -> State:
    if Event.OP_DONE in lines:
        return "done"
    if Event.OP_STOPPED in lines:
        return "stopped"
    if Event.OP_BATCH in lines:
        return "applying"
    if Event.OP_CANARY in lines:
        return "applying" if lines[Event.OP_CANARY].data.get("passed") else "canary"
    return "planned" if counted else "counting"


def written_tally(tally: Tally) -> dict[str, Any]:
    """What has been counted, as the ledger keeps it."""
    return {
        "counts": tally.counts.by_status,
        "whole": tally.counts.whole,
        "others": tally.others.by_status,
        "others_whole": tally.others.whole,
        "counted_to": tally.after,
    }


def read_tally(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an ``Operation`` that tell what has been counted."""
    return {
        "counts": Counts(data["counts"], data["whole"]),
        # A plan of an older release knows nothing of them.
        "others": Counts(data.get("others", {}), data.get("others_whole", False)),
        "counted_to": data.get("counted_to", 0),
    }


def read_plan(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an ``Operation`` that the plan knows."""
    how = dict(data["how"])
    if how.get("available_at"):
        how["available_at"] = datetime.fromisoformat(how["available_at"])
    where = read_filter(data["filter"])
    return {
        "verb": data["verb"],
        "how": how,
        "where": where,
        "asked": read_filter(data["asked"]) if "asked" in data else where,
        "undoes": data.get("undoes"),
        "snapshot": data["snapshot"],
        "upto": data["upto"],
        **read_tally(data),
    }
