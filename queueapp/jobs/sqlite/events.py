"""Lines of the ledger, as every verb here writes them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from queueapp.jobs.sqlite.replacements import execute_many
from queueapp.jobs.sqlite.values import clock_text, json_text

_LOG = """
INSERT INTO job_events (job_id, kind, scope, event, from_status, to_status, attempt, lease_token,
  actor, reason, data, created_at)
VALUES (:job_id, :kind, :scope, :event, :from_status, :to_status, :attempt, :lease_token, :actor,
  :reason, :data, :at)
"""
_EMPTY = dict.fromkeys(
    ("job_id", "kind", "scope", "from_status", "to_status", "attempt", "lease_token", "reason")
)


def event_of(
    job: Any, event: str, *, actor: str, data: Any = None, **fields: Any
) -> dict[str, Any]:
    """A line about ``job``, which has an id and a kind."""
    return control_event(event, actor=actor, data=data, job_id=job.id, kind=job.kind, **fields)


def control_event(event: str, *, actor: str, data: Any = None, **fields: Any) -> dict[str, Any]:
    """Any line."""
    about = {"event": event, "actor": actor, "data": json_text(data)}
    return {**_EMPTY, "at": clock_text(), **about, **fields}


def log(connection: Connection, events: list[dict[str, Any]]) -> None:
    """Write the lines, in this order."""
    execute_many(connection, _LOG, events)
