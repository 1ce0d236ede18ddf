"""What waits to be tried again, by the error that it failed with last: a bounded look."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.database import Database, run
from queueapp.jobs.queries.priorities import MOST_PRIORITIES

# Waiting jobs that are looked at: so many that are due and so many that are not, shared among all
# priorities, and so many held ones.
LINE_LIMIT = 2_000
# What the verdict looks at of each priority, due or not, and in all: what its banner leads to is
# found here as well.
HEAD, MOST_SOONEST = 300, 2_000
# Jobs of one cause of which a list tells, and failed ones that are looked up in the ledger.
SHOWN_IDS = 10
# Waiting jobs of one cause of which it is told when they failed.
TOLD = 500

_WAITS = "id, kind, status, attempts, max_attempts, error_class, error_fingerprint"


BY_NOW, LATER = "<= statement_timestamp()", "> statement_timestamp()"


def next_of_priority(columns: str, limit: object, when: str = BY_NOW) -> str:
    """The next jobs of the priority ``p``, by the index of the claim; ``when`` they are due."""
    return f"""
SELECT {columns} FROM jobs
WHERE status = 'queued' AND priority = p.priority AND available_at {when}
ORDER BY available_at, created_at, id LIMIT {limit}"""


def _sides(limit: str) -> str:
    due = next_of_priority(f"{_WAITS}, true AS is_due", limit)
    later = next_of_priority(f"{_WAITS}, false", limit, LATER)
    return f"(({due}) UNION ALL ({later})) s"


# No index knows the cause of a job that waits, so those that are due first of each priority are
# looked at, and those that are due soonest of the others: no priority, and nothing that is only
# scheduled, may hide the retries of another. And those that are held for their kind. The last error
# stays on a job until its next end.
_WAITING = f"""
WITH RECURSIVE {PRIORITIES},
share AS MATERIALIZED (
  SELECT greatest(%(limit)s::bigint / nullif(count(*), 0), 1) AS each FROM (
    SELECT FROM priorities WHERE priority IS NOT NULL LIMIT {MOST_PRIORITIES}) n
),
looked AS MATERIALIZED (
  (SELECT s.*, p.priority FROM priorities p
   CROSS JOIN LATERAL {_sides("(SELECT each FROM share)")}
   WHERE p.priority IS NOT NULL LIMIT 2 * %(limit)s::bigint)
  UNION
  (SELECT s.*, p.priority FROM priorities p CROSS JOIN LATERAL {_sides(str(HEAD))}
   LIMIT {MOST_SOONEST})
  UNION ALL
  (SELECT {_WAITS}, NULL, NULL FROM jobs
   WHERE status = 'held' AND held_for = 'kind' ORDER BY kind, id LIMIT %(limit)s)
),
full_sides AS (
  SELECT l.status FROM looked l WHERE l.status = 'queued'
  GROUP BY l.status, l.priority, l.is_due HAVING count(*) >= (SELECT each FROM share)
  UNION ALL
  SELECT l.status FROM looked l WHERE l.status = 'held'
  GROUP BY l.status HAVING count(*) >= %(limit)s::bigint
)
SELECT s.status, EXISTS (SELECT FROM full_sides f WHERE f.status = s.status) AS is_cut, g.*
FROM unnest(ARRAY['queued', 'held']) s(status) LEFT JOIN LATERAL (
  SELECT error_fingerprint, kind, max(error_class) AS error_class, count(*) AS jobs,
    min(max_attempts - attempts) AS least_left, max(max_attempts - attempts) AS most_left,
    (array_agg(id ORDER BY id))[1:%(most_ids)s] AS ids
  FROM looked l
  WHERE l.status = s.status AND error_fingerprint IS NOT NULL
    AND error_fingerprint = coalesce(%(fingerprint)s::text, error_fingerprint)
  GROUP BY 1, 2
) g ON true
"""


@dataclass
class Waiting:
    """Jobs that wait with one last error, among those looked at.

    ``first_at``, ``last_at``: when the first and the last of ``told`` of them failed so; looked up
    by ``group_of``, and for the first ones by ``groups_of`` where no job has failed for good.
    """

    queued: int = 0
    held: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    least_left: int | None = None
    most_left: int | None = None
    ids: list[int] = field(default_factory=list)
    error_class: str | None = None
    told: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def jobs(self) -> int:
        """How many."""
        return self.queued + self.held


@dataclass(frozen=True)
class Line:
    """What waits, by cause. ``is_cut``: more jobs wait than were looked at."""

    causes: dict[str, Waiting]
    is_cut: bool


def waiting_line(
    database: Database, fingerprint: str | None = None, *, limit: int = LINE_LIMIT
) -> Line:
    """What the jobs next in line, and those held for their kind, failed with last.

    ``fingerprint``: only of this cause. ``limit``: of those that are due, of those that are not and
    of those that are held.
    """
    causes: dict[str, Waiting] = {}
    most_ids = SHOWN_IDS if fingerprint is None else TOLD
    rows = run(database, _WAITING, fingerprint=fingerprint, limit=limit, most_ids=most_ids)
    for row in rows:
        if row.error_fingerprint is not None:
            _add(causes.setdefault(row.error_fingerprint, Waiting()), row)
    return Line(causes, any(row.is_cut for row in rows))


def _add(waiting: Waiting, row: Row[Any]) -> None:
    if row.status == "held":
        waiting.held += row.jobs
    else:
        waiting.queued += row.jobs
    waiting.kinds[row.kind] += row.jobs
    lefts = [n for n in (waiting.least_left, row.least_left) if n is not None]
    waiting.least_left = min(lefts, default=None)
    waiting.most_left = max(waiting.most_left or 0, row.most_left)
    waiting.ids = sorted({*waiting.ids, *row.ids})
    waiting.error_class = waiting.error_class or row.error_class
