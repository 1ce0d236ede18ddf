"""Write a long history at once: for whoever wants to see the console, or a plan, at size.

Jobs come in batches, each one statement and one transaction, the oldest first. What is written
agrees with itself: the ledger leads to the rows (``flask audit``), minutes count what the ledger
says. No worker and no page uses any of this; see ``past`` for what happened to a few jobs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from queueapp.jobs import minute_stats, minute_totals
from queueapp.jobs.control import QUEUE
from queueapp.jobs.database import Database, run
from queueapp.jobs.made import statements
from queueapp.jobs.made.statements import MARK, PREFIX
from queueapp.jobs.past import ALL
from queueapp.jobs.status import Event

DAYS = 7
BATCH = 50_000
# Lines of a job that has ended, on average: three for most, more for those that were tried again.
LINES_A_JOB = 3.04
# The newest jobs, whose history is there in any case.
_ALWAYS_TOLD = 0.05


@dataclass(frozen=True)
class Content:
    """What made jobs are about.

    ``errors``: class, message, fingerprint and traceback of each; # stands for the job's number.
    ``held_kind`` is on hold. ``hostile``: a payload that some jobs have.
    ``plain_kinds``: those whose handlers take a ``message`` and nothing else.
    """

    kinds: Sequence[str]
    held_kind: str
    errors: Sequence[tuple[str, str, str, str]]
    producers: Sequence[str]
    workers: Sequence[str]
    people: Sequence[str]
    hostile: Mapping[str, Any]
    plain_kinds: Sequence[str] = ()


@dataclass(frozen=True)
class Extent:
    """So many jobs up to ``now``, and about so many lines: the oldest jobs have none then."""

    now: datetime
    jobs: int
    events: int

    def share(self, of_three_million: int) -> int:
        """As many of these jobs as that would be of three million; one at least."""
        return max(1, self.jobs * of_three_million // 3_000_000)

    @property
    def waiting(self) -> int:
        """How many wait, are held or run; the others have ended."""
        return min(self.jobs, self.share(20_000) + self._bounds["scheduled"])

    @property
    def _bounds(self) -> dict[str, int]:
        """Where each part of them ends; what is left is due."""
        shares = {"running": 24, "kept": 20, "held": 2_000, "retrying": 1_500, "scheduled": 3_000}
        ends, end = {}, 0
        for name, number in shares.items():
            end += self.share(number)
            ends[name] = end
        return ends

    def parameters(self) -> dict[str, Any]:
        """What the statement is told of it."""
        ended = self.jobs - self.waiting
        silent = self.jobs - int(self.events / LINES_A_JOB)
        return {
            "now": self.now, "days": DAYS, "span_s": DAYS * 86_400.0, "ended": ended,
            "waiting": self.waiting, "silent": max(0, min(silent, int(ended * (1 - _ALWAYS_TOLD)))),
            **self._bounds,
        }  # fmt: skip


def fill(database: Database, content: Content, extent: Extent, first: int, last: int) -> int:
    """Write the jobs with the numbers ``first`` to ``last`` of the extent; how many lines."""
    run(database, statements.ROOM)
    run(database, statements.SEED, seed=first / (extent.jobs + 1))
    columns = zip(*content.errors, strict=True)
    names = ("classes", "messages", "fingerprints", "traces")
    rows = run(
        database,
        statements.FILL,
        **extent.parameters(),
        **{name: list(column) for name, column in zip(names, columns, strict=True)},
        first=first,
        last=last,
        errors=len(content.errors),
        kinds=list(content.kinds),
        number=len(content.kinds),
        held_kind=content.held_kind,
        producers=[PREFIX + name for name in content.producers],
        workers=list(content.workers),
        people=list(content.people),
        hostile=json.dumps(content.hostile),
        plain_kinds=list(content.plain_kinds),
    )
    return int(rows[0].lines)


def say(database: Database, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write marked lines about the queue: ``scope``, ``event``, ``actor``, ``reason``, ``data``
    and ``at``, an instant, of each.
    """
    told = [
        {**line, "at": line["at"].isoformat(), "data": {**line.get("data", {}), MARK: True}}
        for line in lines
    ]
    run(database, statements.SAY, lines=json.dumps(told))


def minutes(database: Database, since: datetime, until: datetime) -> Iterator[Mapping[str, Any]]:
    """The minute's lines of that time, as ``say`` takes them, from what the ledger says."""
    run(database, statements.ROOM)
    totals: dict[str, Any] = {}
    for row in run(database, statements.MINUTES, since=since, until=until):
        at = row.minute + timedelta(minutes=1)
        totals = minute_totals.carried(totals, row.kinds, now_s=int(at.timestamp()))
        data = {
            "xid": ALL, "id": 0, "since": row.minute.isoformat(), "full": False, "claim": None,
            "kinds": row.kinds, "all": minute_stats.summed(row.kinds), "totals": totals,
        }  # fmt: skip
        yield {
            "scope": QUEUE,
            "event": Event.MINUTE_STATS,
            "actor": "housekeeping:made",
            "at": at,
            "data": data,
        }


def bounds(database: Database) -> tuple[int, int]:
    """The lowest and the highest id of all jobs; (0, -1) without any."""
    row = run(database, statements.BOUNDS)[0]
    return (0, -1) if row.first is None else (row.first, row.last)


def clear(database: Database, first: int) -> int:
    """Remove made jobs among the BATCH ids from ``first`` on, and their lines; how many jobs."""
    run(database, statements.ROOM)
    return int(run(database, statements.CLEAR, first=first, end=first + BATCH)[0].jobs)


def clear_lines(database: Database, people: Sequence[str]) -> None:
    """Remove the marked lines about the queue, and the operations of made people."""
    run(database, statements.CLEAR_LINES, people=list(people))
