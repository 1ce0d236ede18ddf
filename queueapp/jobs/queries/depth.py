"""How much waits, where: counts that stop at a bound and read nothing but indexes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.database import Database, run
from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.status import FINAL, Status

_MOST_PRIORITIES = 100
# No index knows how often a job was tried: the rows themselves must be read, so fewer of them.
TRIED_LIMIT = 1_000

_COUNT = "(SELECT count(*) FROM (SELECT 1 FROM jobs WHERE {rows} LIMIT %(bound)s) bounded)"

# ORDER BY names the index; jobs held with their kind and those held by themselves have one each.
_ROWS = {
    Status.QUEUED: "status = 'queued' ORDER BY priority DESC, available_at, created_at, id",
    Status.RUNNING: "status = 'running' ORDER BY claimed_at, id",
    Status.HELD: "status = 'held' AND held_for = 'kind' ORDER BY kind, id",
    **{
        status: f"status = '{status}' AND finished_at IS NOT NULL ORDER BY finished_at, id"
        for status in FINAL
    },
}
_HELD_ALONE = _COUNT.format(rows="status = 'held' AND held_for = 'job' ORDER BY kind, id")


def _counting(*statuses: Status) -> str:
    counts = ", ".join(f"{_COUNT.format(rows=_ROWS[status])} AS {status}" for status in statuses)
    return f"SELECT {counts}, {_HELD_ALONE} AS held_alone"


_COUNTS = _counting(*Status)
# Where it is known what is queued.
_OTHER_COUNTS = _counting(*(status for status in Status if status is not Status.QUEUED))

_OF_PRIORITY = """
SELECT {columns} FROM jobs
WHERE status = 'queued' AND priority = p.priority AND available_at {side} statement_timestamp()
ORDER BY available_at, created_at, id LIMIT {limit}"""

_DEPTH = """
WITH RECURSIVE {priorities}
SELECT p.priority, due.count AS due, later.count AS scheduled, tried.count AS retrying,
  oldest.id AS oldest_id, oldest.kind AS oldest_kind, oldest.available_at AS oldest_at
FROM priorities p
CROSS JOIN LATERAL (SELECT count(*) FROM ({due}) d) due
CROSS JOIN LATERAL (SELECT count(*) FROM ({later}) l) later
CROSS JOIN LATERAL (SELECT count(*) FROM ({soonest}) s WHERE attempts > 0) tried
LEFT JOIN LATERAL ({oldest}) oldest ON true
WHERE p.priority IS NOT NULL
ORDER BY p.priority DESC LIMIT {most}
""".format(
    priorities=PRIORITIES,
    due=_OF_PRIORITY.format(columns="1", side="<=", limit="%(bound)s"),
    later=_OF_PRIORITY.format(columns="1", side=">", limit="%(bound)s"),
    soonest=_OF_PRIORITY.format(columns="attempts", side=">", limit=TRIED_LIMIT),
    oldest=_OF_PRIORITY.format(columns="id, kind, available_at", side="<=", limit="1"),
    most=_MOST_PRIORITIES,
)


@dataclass(frozen=True)
class PriorityDepth:
    """What waits at one priority; counts stop at COUNT_LIMIT + 1.

    ``retrying``: among the TRIED_LIMIT scheduled ones that come due first. ``oldest_*``: the first
    in line, None when nothing is due.
    """

    priority: int
    due: int
    scheduled: int
    retrying: int
    oldest_id: int | None
    oldest_kind: str | None
    oldest_at: datetime | None


@dataclass(frozen=True)
class WaitingCounts:
    """The queued jobs by view; each count stops at COUNT_LIMIT + 1.

    ``retrying_is_least``: not all scheduled ones were looked at, there may be more.
    """

    due: int
    scheduled: int
    retrying: int
    retrying_is_least: bool = False

    @classmethod
    def of(cls, depths: list[PriorityDepth]) -> WaitingCounts:
        """Add up the priorities."""
        return cls(
            _capped(depth.due for depth in depths),
            _capped(depth.scheduled for depth in depths),
            _capped(depth.retrying for depth in depths),
            any(depth.scheduled > TRIED_LIMIT for depth in depths),
        )


def status_counts(
    database: Database, *, depths: list[PriorityDepth] | None = None
) -> dict[Status, int]:
    """How many jobs stand in each status, each counted up to COUNT_LIMIT + 1.

    ``depths``: what ``depth_by_priority`` has just told; what it has counted is not counted again.
    """
    # Of more priorities it tells nothing.
    known = depths if depths is not None and len(depths) < _MOST_PRIORITIES else None
    statement = _COUNTS if known is None else _OTHER_COUNTS
    [row] = run(database, statement, bound=COUNT_LIMIT + 1)
    counts = {status: getattr(row, status, 0) for status in Status}
    if known is not None:
        counts[Status.QUEUED] = _capped(n for one in known for n in (one.due, one.scheduled))
    counts[Status.HELD] = _capped((row.held, row.held_alone))
    return counts


def depth_by_priority(database: Database) -> list[PriorityDepth]:
    """What waits at each priority, the one that runs first on top."""
    rows = run(database, _DEPTH, bound=COUNT_LIMIT + 1)
    return [PriorityDepth(**row._mapping) for row in rows]


def _capped(counts: Iterable[int]) -> int:
    return min(sum(counts), COUNT_LIMIT + 1)
