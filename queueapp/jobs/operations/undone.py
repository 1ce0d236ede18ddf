"""What has been undone of operations: by which undos, and how many of their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from queueapp.jobs.database import Database, run
from queueapp.jobs.operations.listing import readable
from queueapp.jobs.operations.state import Operation
from queueapp.jobs.operations.undo import LEFT

# An undo names its origin in its plan, and was planned after it: so these are the plans since then,
# by the index of control lines, however many other lines the ledger has.
_UNDOS = """
SELECT e.scope, e.created_at FROM job_events e
WHERE e.job_id IS NULL AND e.event = 'op_planned' AND e.created_at >= %(since)s::timestamptz
  AND e.data->>'undoes' = ANY(%(ids)s::text[])
ORDER BY e.id DESC LIMIT 200
"""


@dataclass(frozen=True)
class Undone:
    """``by``: the undos of an operation that have moved jobs, the newest first; ``moved``: how many
    jobs they have moved back, together.
    """

    by: tuple[str, ...] = ()
    moved: int = 0


def undone_of(database: Database, origins: Sequence[Operation]) -> dict[str, Undone]:
    """What has been undone of each of ``origins`` by its id; all of them are in it."""
    found = {made.id: Undone() for made in origins}
    asked = [made for made in origins if made.verb in LEFT and made.is_over and made.moved]
    if not asked:
        return found
    since, ids = min(made.planned_at for made in asked), [made.id for made in asked]
    plans: Sequence[Any] = run(database, _UNDOS, since=since, ids=ids)
    for undo in readable(database, plans):
        if undo.undoes in found and undo.moved:
            so_far = found[undo.undoes]
            found[undo.undoes] = Undone((*so_far.by, undo.id), so_far.moved + undo.moved)
    return found
