"""The proof: does the ledger lead to the rows?

``check`` folds the events of every job, in batches, and compares what they lead to with the row; it
names what does not fit: an illegal move, a row that differs, a token claimed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.database import Database, run
from queueapp.jobs.fold import FOLDED, Folded, fold
from queueapp.jobs.status import Event

BATCH = 2_000


@dataclass(frozen=True)
class Offender:
    """One thing that does not fit, in words."""

    job_id: int
    problem: str


@dataclass
class Report:
    """The result of a check. ``truncated``: jobs whose beginning is older than the ledger.

    ``found`` counts every problem, ``offenders`` are the first of them.
    """

    jobs: int = 0
    events: int = 0
    truncated: int = 0
    found: int = 0
    offenders: list[Offender] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return self.found == 0

    def add(self, job_id: int, problems: Iterable[str], keep: int) -> None:
        """Count ``problems`` and keep them while there are fewer than ``keep``."""
        for problem in problems:
            self.found += 1
            if len(self.offenders) < keep:
                self.offenders.append(Offender(job_id, problem))


_EVENTS = """
SELECT id, job_id, event, from_status, to_status, attempt, lease_token, data
FROM job_events WHERE job_id > %(after)s AND job_id <= %(upto)s ORDER BY job_id, id
"""

_ROWS = """
SELECT id, status, attempts, handbacks, priority, available_at, cancel_requested_at,
  error_fingerprint, lease_token, created_at
FROM jobs WHERE id > %(after)s AND id <= %(upto)s ORDER BY id
"""

# Switches may outlive their day.
_OLDEST = "SELECT min(created_at) AS at FROM job_events WHERE job_id IS NOT NULL"

# Over all jobs at once: a token is one attempt of one job.
_TWICE = """
SELECT min(job_id) AS job_id, lease_token FROM job_events
WHERE job_id IS NOT NULL AND event = 'claimed'
GROUP BY lease_token HAVING count(*) > 1 ORDER BY 1 LIMIT 10000
"""


def last_id(database: Database) -> int:
    """The highest job id, in the table or in the ledger: where a check ends."""
    row = run(
        database,
        "SELECT greatest((SELECT max(id) FROM jobs), (SELECT max(job_id) FROM job_events)) AS id",
    )[0]
    return int(row.id or 0)


def check(database: Database, *, keep: int = 20) -> Iterator[tuple[int, Report]]:
    """Check every job, yielding the last id checked and the report so far after each batch.

    Read in one repeatable-read transaction, or beside a running queue moves will look like faults.
    At most ``keep`` offenders are kept.
    """
    report, end = Report(), last_id(database)
    oldest = run(database, _OLDEST)[0].at
    for after in range(0, end, BATCH):
        bounds = {"after": after, "upto": after + BATCH}
        events = _by_job(run(database, _EVENTS, **bounds))
        rows = {row.id: row for row in run(database, _ROWS, **bounds)}
        for job_id in sorted(rows.keys() | events.keys()):
            found = _check_job(rows.get(job_id), events.get(job_id, []), oldest, report)
            report.add(job_id, found, keep)
        yield min(after + BATCH, end), report
    for row in run(database, _TWICE):
        report.add(row.job_id, [f"token {row.lease_token} was claimed twice"], keep)
    yield end, report


def _by_job(events: Sequence[Row[Any]]) -> dict[int, list[Any]]:
    return {job_id: list(own) for job_id, own in groupby(events, key=lambda event: event.job_id)}


def _check_job(row: Any, events: list[Any], oldest: Any, report: Report) -> list[str]:
    report.jobs += row is not None
    report.events += len(events)
    if not events and (oldest is None or row.created_at >= oldest):
        return ["the job has no history"]
    if not events or events[0].event != Event.ENQUEUED:
        report.truncated += 1
        return []
    state, problems = fold(events)
    return problems + _differences(state, row)


def _differences(state: Folded, row: Any) -> list[str]:
    if row is None:
        return [] if state.status is None else [f"the row is gone, the ledger says {state.status}"]
    return [
        f"{part}: the ledger leads to {getattr(state, part)}, the row says {getattr(row, part)}"
        for part in ("status", "lease_token", *FOLDED)
        if getattr(row, part) != getattr(state, part)
    ]
