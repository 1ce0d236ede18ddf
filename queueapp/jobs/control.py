"""Control events: pause, holds, workers seen, statistics. They are the state, the latest counts.

They stand in ``job_events`` with ``job_id`` NULL and a scope: ``queue``, ``kind:<kind>``,
``worker:<id>`` or ``op:<id>``. So the audit trail cannot disagree with the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Event

QUEUE = "queue"
SWITCHES = (Event.QUEUE_PAUSED, Event.QUEUE_RESUMED, Event.KIND_HELD, Event.KIND_UNHELD)

_RECORD = """
INSERT INTO job_events (scope, event, actor, reason, data)
VALUES (%(scope)s, %(event)s, %(actor)s, %(reason)s, %(data)s::jsonb)
RETURNING id
"""

# What a switch may be written as: itself, or carried over from a day that was dropped.
SWITCH_EVENTS = [str(event) for event in (*SWITCHES, Event.CONTROL_CARRIED)]

# The latest switch of each scope. ``since`` lets the planner leave the partitions of older days.
LATEST = """
SELECT DISTINCT ON (scope) id, scope, event, actor, reason, created_at, data
FROM job_events
WHERE job_id IS NULL AND event = ANY(%(switches)s)
  AND created_at >= coalesce(%(since)s::timestamptz, '-infinity')
ORDER BY scope, id DESC
"""

# What the day's switches are worth once the day is gone: one in force, or a lift that hides an
# older switch elsewhere. All else can go.
_CARRY = """
INSERT INTO job_events (scope, event, actor, data)
SELECT latest.scope, 'control_carried', %(actor)s, latest.told FROM (
  SELECT DISTINCT ON (scope) scope, tableoid,
    CASE event WHEN 'control_carried' THEN data
      ELSE jsonb_build_object('event', event, 'actor', actor, 'reason', reason, 'at', created_at)
    END AS told
  FROM job_events WHERE job_id IS NULL AND event = ANY(%(switches)s)
  ORDER BY scope, id DESC
) latest
WHERE latest.tableoid = %(table)s::regclass AND (
  latest.told->>'event' IN ('queue_paused', 'kind_held')
  OR EXISTS (
    SELECT FROM job_events e WHERE e.job_id IS NULL AND e.event = ANY(%(switches)s)
      AND e.scope = latest.scope AND e.tableoid <> latest.tableoid))
ORDER BY latest.scope
RETURNING scope
"""


@dataclass(frozen=True)
class Switch:
    """One control event that is in force: who, why, since when."""

    id: int
    event: Event
    actor: str
    reason: str | None
    at: datetime


@dataclass
class Controls:
    """The switches in force, the latest of each scope."""

    latest: dict[str, Switch] = field(default_factory=dict)

    def merge(self, newer: Controls) -> None:
        """Take over what is newer; ids decide."""
        for scope, switch in newer.latest.items():
            known = self.latest.get(scope)
            if known is None or switch.id > known.id:
                self.latest[scope] = switch

    @property
    def pause(self) -> Switch | None:
        """The pause in force, if the queue is paused."""
        switch = self.latest.get(QUEUE)
        return switch if switch and switch.event is Event.QUEUE_PAUSED else None

    @property
    def held_kinds(self) -> tuple[str, ...]:
        """Kinds on hold, sorted."""
        return tuple(
            sorted(
                scope.removeprefix("kind:")
                for scope, switch in self.latest.items()
                if switch.event is Event.KIND_HELD
            )
        )


def record(
    database: Database,
    event: Event,
    *,
    scope: str = QUEUE,
    actor: str,
    reason: str | None = None,
    data: dict[str, Any] | None = None,
) -> int:
    """Write one control event and return its id. Does not commit."""
    text = json.dumps(data) if data is not None else None
    rows = run(database, _RECORD, scope=scope, event=event, actor=actor, reason=reason, data=text)
    return int(rows[0].id)


def pause(database: Database, *, actor: str, reason: str) -> None:
    """Stop all claiming, within 2 s of the commit. Running jobs finish."""
    record(database, Event.QUEUE_PAUSED, actor=actor, reason=reason)


def resume(database: Database, *, actor: str, reason: str | None = None) -> None:
    """Lift the pause."""
    record(database, Event.QUEUE_RESUMED, actor=actor, reason=reason)


def hold_kind(database: Database, kind: str, *, actor: str, reason: str) -> None:
    """Stop claiming ``kind``; housekeeping moves its waiting jobs to held."""
    record(database, Event.KIND_HELD, scope=f"kind:{kind}", actor=actor, reason=reason)


def unhold_kind(database: Database, kind: str, *, actor: str, reason: str | None = None) -> None:
    """Let ``kind`` run again; housekeeping moves back what was held for it."""
    record(database, Event.KIND_UNHELD, scope=f"kind:{kind}", actor=actor, reason=reason)


def carry(database: Database, table: str, *, actor: str) -> list[str]:
    """Write again what is in force and stands in ``table``, a day to be dropped; the scopes.

    Nobody may write a switch meanwhile: the caller has locked the ledger.
    """
    rows = run(database, _CARRY, table=table, actor=actor, switches=SWITCH_EVENTS)
    return [row.scope for row in rows]


def in_force(database: Database, *, since: datetime | None = None) -> Controls:
    """The latest switch of each scope, of all times or ``since`` an instant."""
    rows = run(database, LATEST, switches=SWITCH_EVENTS, since=since)
    return read_switches([dict(row._mapping) for row in rows])


def read_switches(rows: Iterable[Mapping[str, Any]]) -> Controls:
    """Read control events, one a scope, as ``Controls``."""
    return Controls({row["scope"]: _switch(row) for row in rows})


def _switch(row: Mapping[str, Any]) -> Switch:
    """Read one. A carried switch tells what it was when its partition was dropped."""
    told = {**row, **(row["data"] or {})} if row["event"] == Event.CONTROL_CARRIED else row
    at = told.get("at") or told["created_at"]
    at = datetime.fromisoformat(at) if isinstance(at, str) else at
    return Switch(row["id"], Event(told["event"]), told["actor"], told["reason"], at)
