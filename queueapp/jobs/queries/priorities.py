"""At which priorities what waits is counted, and how far at each."""

from __future__ import annotations

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.queries.bounds import COUNT_LIMIT

# One past this: there are more. They are found by a probe each, the highest first.
MOST_PRIORITIES = 1_000
# Jobs that one count may read, shared among the priorities.
_MOST_COUNTED = 300_000

# ``looked``: the priorities of queued jobs, ``%(priorities)s`` of them at most; ``share``: how many
# jobs are counted at each, one past which a count stops.
LOOKED = f"""{PRIORITIES},
looked AS MATERIALIZED (
  SELECT priority FROM priorities WHERE priority IS NOT NULL LIMIT %(priorities)s
),
share AS MATERIALIZED (
  SELECT least({COUNT_LIMIT}, {_MOST_COUNTED} / greatest(count(*), 1)) AS most FROM looked
)"""


def share_of(priorities: int) -> int:
    """How many jobs are counted at each of so many."""
    return min(COUNT_LIMIT, _MOST_COUNTED // max(priorities, 1))
