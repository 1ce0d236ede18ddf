"""The proof: does the ledger lead to the rows?

``fold`` replays a job's events into what its row must say; ``check`` compares the two for every
job, in batches, and names what does not fit: an illegal move, a row that differs, a token claimed
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Event, Status, is_legal

BATCH = 2_000

# What events carry in ``data`` when they change it; instants as text in UTC, to the microsecond.
FOLDED = (
    "attempts",
    "handbacks",
    "priority",
    "available_at",
    "cancel_requested_at",
    "error_fingerprint",
)
_INSTANT = "YYYY-MM-DD HH24:MI:SS.US"


@dataclass
class Folded:
    """What a job's events say its row must be. ``status`` None: no row."""

    status: Status | None = None
    attempts: int = 0
    handbacks: int = 0
    priority: int = 0
    available_at: str | None = None
    cancel_requested_at: str | None = None
    error_fingerprint: str | None = None


@dataclass(frozen=True)
class Offender:
    """One thing that does not fit, in words."""

    job_id: int
    problem: str


@dataclass
class Report:
    """The result of a check. ``truncated``: jobs whose beginning is older than the ledger."""

    jobs: int = 0
    events: int = 0
    truncated: int = 0
    offenders: list[Offender] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.offenders


def fold(events: Iterable[Any]) -> tuple[Folded, list[str]]:
    """Replay ``events`` (in id order) and return the state they lead to, and every illegal step."""
    state, problems = Folded(), []
    for event in events:
        name = Event(event.event)
        if name is Event.STALE_WRITE_REJECTED:
            continue
        problems += _step_problems(state, event, name)
        _apply(state, event, name)
    return state, problems


def _step_problems(state: Folded, event: Any, name: Event) -> list[str]:
    source = Status(event.from_status) if event.from_status else None
    target = Status(event.to_status) if event.to_status else None
    problems = []
    if not is_legal(name, source, target):
        problems.append(f"event {event.id}: {name} from {source} to {target} is no legal move")
    if source is not state.status:
        problems.append(f"event {event.id}: {name} starts at {source}, the job was {state.status}")
    return problems


def _apply(state: Folded, event: Any, name: Event) -> None:
    state.status = Status(event.to_status) if event.to_status else None
    data = event.data or {}
    if name is Event.CLAIMED:
        state.attempts = event.attempt
    elif name is Event.SUCCEEDED:
        state.error_fingerprint = None
    for part in FOLDED:
        if part in data:
            setattr(state, part, data[part])


# Instants are compared as text of one form: the ledger keeps them as JSON in some session's zone.
_EVENTS = f"""
SELECT id, job_id, event, from_status, to_status, attempt, lease_token, created_at,
  data || jsonb_strip_nulls(jsonb_build_object(
    'available_at',
    to_char((data->>'available_at')::timestamptz AT TIME ZONE 'UTC', '{_INSTANT}'),
    'cancel_requested_at',
    to_char((data->>'cancel_requested_at')::timestamptz AT TIME ZONE 'UTC', '{_INSTANT}'))) AS data
FROM job_events WHERE job_id > %(after)s AND job_id <= %(upto)s ORDER BY job_id, id
"""

_ROWS = f"""
SELECT id, status, attempts, handbacks, priority,
  to_char(available_at AT TIME ZONE 'UTC', '{_INSTANT}') AS available_at,
  to_char(cancel_requested_at AT TIME ZONE 'UTC', '{_INSTANT}') AS cancel_requested_at,
  error_fingerprint, created_at
FROM jobs WHERE id > %(after)s AND id <= %(upto)s ORDER BY id
"""

_TWICE = """
SELECT min(job_id) AS job_id, lease_token FROM job_events
WHERE job_id > %(after)s AND job_id <= %(upto)s AND event = 'claimed'
GROUP BY lease_token HAVING count(*) > 1
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
    oldest = run(database, "SELECT min(created_at) AS at FROM job_events")[0].at
    for after in range(0, end, BATCH):
        bounds = {"after": after, "upto": after + BATCH}
        events = _by_job(run(database, _EVENTS, **bounds))
        rows = {row.id: row for row in run(database, _ROWS, **bounds)}
        for job_id in sorted(rows.keys() | events.keys()):
            found = _check_job(rows.get(job_id), events.get(job_id, []), oldest, report)
            _keep(report, keep, job_id, found)
        for row in run(database, _TWICE, **bounds):
            _keep(report, keep, row.job_id, [f"token {row.lease_token} was claimed twice"])
        yield min(after + BATCH, end), report
    if end == 0:
        yield 0, report


def _by_job(events: Sequence[Row[Any]]) -> dict[int, list[Any]]:
    grouped: dict[int, list[Any]] = {}
    for event in events:
        grouped.setdefault(event.job_id, []).append(event)
    return grouped


def _keep(report: Report, keep: int, job_id: int, problems: Iterable[str]) -> None:
    room = keep - len(report.offenders)
    report.offenders += [Offender(job_id, problem) for problem in problems][: max(room, 0)]


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
    wanted = {"status": state.status, **{part: getattr(state, part) for part in FOLDED}}
    return [
        f"{part}: the ledger leads to {value}, the row says {getattr(row, part)}"
        for part, value in wanted.items()
        if getattr(row, part) != value
    ]
