"""What is known when all is over: the rows, the ledger, what handlers noted, what was promised."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psycopg
import sqlalchemy as sa

from queueapp.commands.chaos import outside
from queueapp.commands.chaos.outside import Line
from queueapp.jobs import audit

_ROWS = "SELECT id, status, error_class, error_message FROM jobs ORDER BY id"

_EVENTS = """
SELECT job_id, event, from_status, to_status, attempt, extract(epoch FROM created_at)::float8,
  reason, extract(epoch FROM (data->>'lease_expires_at')::timestamptz)::float8,
  actor, lease_token::text
FROM job_events WHERE job_id IS NOT NULL ORDER BY job_id, id
"""

# By role, all of the product's processes; our own questions do not count.
_CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'queueapp-%'
  AND application_name <> 'queueapp-chaos'
"""

_OVERDUE = """
SELECT id FROM jobs WHERE status = 'running' AND lease_expires_at < clock_timestamp() ORDER BY id
"""


class Job(NamedTuple):
    """A row at the end."""

    id: int
    status: str
    error_class: str | None
    error_message: str | None


class Event(NamedTuple):
    """A line of the queue's ledger. Instants are seconds of the database's clock."""

    job: int
    name: str
    source: str | None
    target: str | None
    attempt: int | None
    at: float
    reason: str | None
    lease_end: float | None
    actor: str
    token: str | None


@dataclass
class Evidence:
    """Everything that the invariants judge. ``asked``: how many jobs were to be created;
    ``deaths``: when processes were killed, by pid.
    """

    asked: int = 0
    promised: list[int] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    deaths: dict[int, float] = field(default_factory=dict)
    overdue: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    fell: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    audit: audit.Report = field(default_factory=audit.Report)
    connections: tuple[int, int] = (0, 0)
    connections_allowed: int = 0


def gather(url: str, ledger: Path, evidence: Evidence) -> None:
    """Read both ledgers and the rows into ``evidence``; nothing may run any more."""
    evidence.lines = outside.read(ledger)
    plain = url.replace("+psycopg", "")
    with psycopg.connect(plain, application_name="queueapp-chaos") as connection:
        evidence.jobs = [Job(*row) for row in connection.execute(_ROWS)]
        evidence.events = [Event(*row) for row in connection.execute(_EVENTS)]
        evidence.overdue = [row[0] for row in connection.execute(_OVERDUE)]
    evidence.audit = _audited(url)


def _audited(url: str) -> audit.Report:
    """What ``flask audit`` would say."""
    engine = sa.create_engine(url, isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        reports = [report for _, report in audit.check(connection)]
    engine.dispose()
    return reports[-1]


def connections(url: str) -> int:
    """How many connections the product's processes hold now."""
    plain = url.replace("+psycopg", "")
    with psycopg.connect(plain, application_name="queueapp-chaos") as connection:
        row = connection.execute(_CONNECTIONS).fetchone()
    return int(row[0]) if row else 0
