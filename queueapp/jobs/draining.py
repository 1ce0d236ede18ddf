"""Ask a worker to drain: it takes no new jobs, finishes what it runs, and ends.

The ask is a control event in the worker's own scope. That names its process, so whoever comes in
its place is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from queueapp.jobs import control
from queueapp.jobs.database import Database, run
from queueapp.jobs.instants import read_instant
from queueapp.jobs.status import Event

# ``since`` leaves out the days before the worker can have been asked.
ASKED = """
SELECT actor, reason, created_at FROM job_events
WHERE job_id IS NULL AND event = 'drain_requested' AND scope = %(me)s
  AND created_at >= coalesce(%(since)s::timestamptz, '-infinity')
ORDER BY id DESC LIMIT 1
"""


@dataclass(frozen=True)
class Drain:
    """Who has asked a worker to drain, why, and when."""

    actor: str
    reason: str | None
    at: datetime

    @property
    def said(self) -> str:
        """The same in one line."""
        why = f": {' '.join(self.reason.split())}" if self.reason else ""
        return f"asked to drain by {self.actor}{why}"


def ask(
    database: Database, worker: str, *, actor: str, reason: str, via: str | None = None
) -> None:
    """Ask ``worker`` (as ``locked_by`` names it) to drain; it hears within 2 s of the commit."""
    told = {"via": via} if via else None
    control.record(
        database, Event.DRAIN_REQUESTED, scope=worker, actor=actor, reason=reason, data=told
    )


def asked(database: Database, worker: str, *, since: datetime | None = None) -> Drain | None:
    """Who has asked ``worker`` to drain, at any time or ``since`` an instant."""
    rows = run(database, ASKED, me=worker, since=since)
    return read(rows[0]._asdict()) if rows else None


def read(row: Mapping[str, Any]) -> Drain:
    """Read a row of ``ASKED``, or what JSON has made of it."""
    at = row["created_at"]
    return Drain(row["actor"], row["reason"], read_instant(at) if isinstance(at, str) else at)
