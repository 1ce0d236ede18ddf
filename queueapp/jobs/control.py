"""Control events: pause, holds, workers seen, statistics. They are the state, the latest counts.

They stand in ``job_events`` with ``job_id`` NULL and a scope: ``queue``, ``kind:<kind>``,
``worker:<id>`` or ``op:<id>``. So the audit trail cannot disagree with the state.

A pause or a hold may be set for a time. It is in force until a line lifts it: when its time is over
a worker writes that line, by the database's clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from queueapp.jobs import on_behalf
from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Event

QUEUE = "queue"
SWITCHES = (Event.QUEUE_PAUSED, Event.QUEUE_RESUMED, Event.KIND_HELD, Event.KIND_UNHELD)
# What keeps work from starting, and what lifts it.
LIFTS = {Event.QUEUE_PAUSED: Event.QUEUE_RESUMED, Event.KIND_HELD: Event.KIND_UNHELD}
LOCK = 730_044

_RECORD = """
INSERT INTO job_events (scope, event, actor, reason, data)
VALUES (%(scope)s, %(event)s, %(actor)s, %(reason)s, %(data)s::jsonb)
RETURNING id
"""

# Switches are written one at a time, so that the latest by its id is the one that was meant last:
# without that a worker could lift, for its time is over, a pause that was set anew meanwhile.
_TAKE_TURNS = f"SELECT pg_advisory_xact_lock({LOCK})"
_NOW = "SELECT clock_timestamp() AS now"

# What workers say of themselves: no deed of anybody's, also where one asks over HTTP.
SIGNS = (Event.WORKER_SEEN, Event.WORKER_STOPPED)

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


@dataclass(frozen=True)
class Switch:
    """One control event that is in force: who, why, since when.

    ``until``: when a pause or a hold ends by itself, None: when somebody lifts it. Of one that was
    lifted, ``spread_s``: over how long its jobs come back, ``began_at``: since when it had been.
    """

    id: int
    event: Event
    actor: str
    reason: str | None
    at: datetime
    until: datetime | None = None
    spread_s: float = 0.0
    began_at: datetime | None = None

    @property
    def stops(self) -> bool:
        """Whether it keeps work from starting: a pause or a hold."""
        return self.event in LIFTS

    def is_over(self, now: datetime) -> bool:
        """Whether its time is over, so that it is to be lifted."""
        return self.stops and self.until is not None and self.until <= now


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
        return self.stop_of(QUEUE)

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

    def stop_of(self, scope: str) -> Switch | None:
        """What keeps the work of a scope from starting, if anything does."""
        switch = self.latest.get(scope)
        return switch if switch and switch.stops else None

    def any_over(self, now: datetime) -> bool:
        """Whether the time of a pause or a hold is over."""
        return any(switch.is_over(now) for switch in self.latest.values())

    def spread_left_s(self, kind: str, now: datetime) -> float:
        """Over how many seconds from ``now`` on the jobs of a kind are to come back; 0: at once."""
        lift = self.latest.get(scope_of(kind))
        if lift is None or lift.stops:
            return 0.0
        return max(0.0, lift.spread_s - (now - lift.at).total_seconds())


def scope_of(kind: str) -> str:
    """The scope of a kind's holds."""
    return f"kind:{kind}"


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
    told = {**(data or {}), **({} if event in SIGNS else on_behalf.told())}
    text = json.dumps(told) if data is not None or told else None
    rows = run(database, _RECORD, scope=scope, event=event, actor=actor, reason=reason, data=text)
    return int(rows[0].id)


def take_turns(database: Database) -> None:
    """Keep others from writing a switch until this transaction ends: what is read now stays so."""
    run(database, _TAKE_TURNS)


def pause(
    database: Database,
    *,
    actor: str,
    reason: str,
    for_s: float | None = None,
    via: str | None = None,
) -> None:
    """Stop all claiming, within 2 s of the commit. Running jobs finish.

    ``for_s``: for so many seconds; None: until somebody resumes.
    """
    told = _told(database, via, for_s=for_s)
    record(database, Event.QUEUE_PAUSED, actor=actor, reason=reason, data=told)


def resume(
    database: Database, *, actor: str, reason: str | None = None, via: str | None = None
) -> None:
    """Lift the pause."""
    told = _told(database, via, lifts=QUEUE)
    record(database, Event.QUEUE_RESUMED, actor=actor, reason=reason, data=told)


def hold_kind(
    database: Database,
    kind: str,
    *,
    actor: str,
    reason: str,
    for_s: float | None = None,
    via: str | None = None,
) -> None:
    """Stop claiming ``kind``; housekeeping moves its waiting jobs to held.

    ``for_s``: for so many seconds; None: until somebody lifts it.
    """
    told = _told(database, via, for_s=for_s)
    scope = scope_of(kind)
    record(database, Event.KIND_HELD, scope=scope, actor=actor, reason=reason, data=told)


def unhold_kind(
    database: Database,
    kind: str,
    *,
    actor: str,
    reason: str | None = None,
    spread_s: float = 0.0,
    via: str | None = None,
) -> None:
    """Let ``kind`` run again; housekeeping moves back what was held for it.

    ``spread_s`` > 0: their due times are spread over so many seconds from now on.
    """
    scope = scope_of(kind)
    told = _told(database, via, spread_s=spread_s, lifts=scope)
    record(database, Event.KIND_UNHELD, scope=scope, actor=actor, reason=reason, data=told)


def _told(
    database: Database,
    via: str | None,
    *,
    for_s: float | None = None,
    spread_s: float = 0.0,
    lifts: str | None = None,
) -> dict[str, Any] | None:
    """What a switch says of itself beside who and why; no other is written meanwhile."""
    take_turns(database)
    told: dict[str, Any] = {"via": via} if via else {}
    if for_s is not None:
        now: datetime = run(database, _NOW)[0].now
        told["until"] = (now + timedelta(seconds=for_s)).isoformat()
    if spread_s > 0:
        told["spread_s"] = spread_s
    stop = in_force(database).stop_of(lifts) if lifts else None
    if stop is not None:
        told["was"] = was(stop)
    return told or None


def was(stop: Switch) -> dict[str, Any]:
    """What a line that lifts a pause or a hold tells of it."""
    return {
        "since": stop.at.isoformat(),
        "until": stop.until.isoformat() if stop.until else None,
    }


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
    data = row["data"] or {}
    return Switch(
        row["id"],
        Event(told["event"]),
        told["actor"],
        told["reason"],
        _instant(told.get("at") or told["created_at"]),
        _instant(data["until"]) if data.get("until") else None,
        float(data.get("spread_s") or 0.0),
        _instant(data["was"]["since"]) if "since" in (data.get("was") or ()) else None,
    )


def _instant(value: datetime | str) -> datetime:
    """An instant from a column or from within JSON."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at if at.tzinfo else at.replace(tzinfo=UTC)
