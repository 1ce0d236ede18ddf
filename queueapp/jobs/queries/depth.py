"""How much waits, where: counts that stop at a bound and read nothing but indexes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from queueapp.jobs.database import Database, run
from queueapp.jobs.queries import priorities
from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.queries.counting import Counted
from queueapp.jobs.status import FINAL, Status

# No index knows how often a job was tried: the rows themselves must be read, so fewer of them, one
# for so many that are counted.
TRIED = 10

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

_SHARE = "(SELECT most + 1 FROM share)"
_SHARE_OF_TRIED = f"(SELECT most / {TRIED} FROM share)"

_DEPTH = """
WITH RECURSIVE {looked}
SELECT p.priority, (SELECT most FROM share) AS most, due.count AS due, later.count AS scheduled,
  tried.count AS retrying, oldest.id AS oldest_id, oldest.kind AS oldest_kind,
  greatest(oldest.available_at, oldest.created_at) AS oldest_at
FROM looked p
CROSS JOIN LATERAL (SELECT count(*) FROM ({due}) d) due
CROSS JOIN LATERAL (SELECT count(*) FROM ({later}) l) later
CROSS JOIN LATERAL (SELECT count(*) FROM ({soonest}) s WHERE attempts > 0) tried
LEFT JOIN LATERAL ({oldest}) oldest ON true
ORDER BY p.priority DESC
""".format(
    looked=priorities.LOOKED,
    due=_OF_PRIORITY.format(columns="1", side="<=", limit=_SHARE),
    later=_OF_PRIORITY.format(columns="1", side=">", limit=_SHARE),
    soonest=_OF_PRIORITY.format(columns="attempts", side=">", limit=_SHARE_OF_TRIED),
    oldest=_OF_PRIORITY.format(columns="id, kind, available_at, created_at", side="<=", limit="1"),
)


@dataclass(frozen=True)
class PriorityDepth:
    """What waits at one priority; ``due`` and ``scheduled`` stop one past ``most``.

    ``retrying``: among the first scheduled ones, a TRIEDth of ``most``. ``oldest_*``: the first
    in line and since when it waits, None when nothing is due. A job that was due before it was
    there waits since it is there.
    """

    priority: int
    most: int
    due: int
    scheduled: int
    retrying: int
    oldest_id: int | None
    oldest_kind: str | None
    oldest_at: datetime | None

    @property
    def more_due(self) -> bool:
        """Whether more are due than were counted."""
        return self.due > self.most

    @property
    def more_scheduled(self) -> bool:
        """Whether more are scheduled than were counted."""
        return self.scheduled > self.most


@dataclass(frozen=True)
class WaitingCounts:
    """The queued jobs by view, each up to COUNT_LIMIT."""

    due: Counted
    scheduled: Counted
    retrying: Counted

    @classmethod
    def of(cls, depths: list[PriorityDepth]) -> WaitingCounts:
        """Add up the priorities."""
        cut = priorities_are_cut(depths)
        return cls(
            _counted(sum(one.due for one in depths), cut or any(one.more_due for one in depths)),
            _counted(
                sum(one.scheduled for one in depths),
                cut or any(one.more_scheduled for one in depths),
            ),
            _counted(
                sum(one.retrying for one in depths),
                cut or any(one.scheduled > one.most // TRIED for one in depths),
            ),
        )


def status_counts(
    database: Database, *, depths: list[PriorityDepth] | None = None
) -> dict[Status, int]:
    """How many jobs stand in each status, each counted up to COUNT_LIMIT + 1.

    ``depths``: what ``depth_by_priority`` has just told; what it has counted is not counted again.
    """
    queued = None if depths is None else _queued(depths)
    statement = _COUNTS if queued is None else _OTHER_COUNTS
    [row] = run(database, statement, bound=COUNT_LIMIT + 1)
    counts = {status: getattr(row, status, 0) for status in Status}
    if queued is not None:
        counts[Status.QUEUED] = queued
    counts[Status.HELD] = min(row.held + row.held_alone, COUNT_LIMIT + 1)
    return counts


def depth_by_priority(database: Database) -> list[PriorityDepth]:
    """What waits at each priority, the one that runs first on top; see ``priorities_are_cut``."""
    rows = run(database, _DEPTH, priorities=priorities.MOST_PRIORITIES + 1)
    return [PriorityDepth(**row._mapping) for row in rows]


def priorities_are_cut(depths: list[PriorityDepth]) -> bool:
    """Whether jobs may wait at lower priorities than were looked at."""
    return len(depths) > priorities.MOST_PRIORITIES


def _queued(depths: list[PriorityDepth]) -> int | None:
    """How many wait, up to COUNT_LIMIT + 1; None where that is not known."""
    number = sum(one.due + one.scheduled for one in depths)
    if number > COUNT_LIMIT:
        return COUNT_LIMIT + 1
    is_least = priorities_are_cut(depths) or any(
        one.more_due or one.more_scheduled for one in depths
    )
    return None if is_least else number


def _counted(number: int, is_least: bool) -> Counted:
    return Counted(min(number, COUNT_LIMIT), is_least or number > COUNT_LIMIT)
