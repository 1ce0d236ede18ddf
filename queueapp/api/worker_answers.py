"""Workers as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from queueapp.api.describe import instant, instant_or_null
from queueapp.api.model import Model
from queueapp.jobs.workers import Attendance, Roll, State


def _says(about: str) -> Any:
    return Field(description=about)


class Worker(Model):
    """A worker: by its signs in the ledger, its leases and its connections, whichever there are."""

    worker: Annotated[str, _says("Its name: what `locked_by` of its jobs says.")]
    state: Annotated[
        State,
        _says("How it stands. Silent and unconnected ones are dead, for all that is known."),
    ]
    seen_at: Annotated[datetime | None, _says("Its last sign; null: none since yesterday.")]
    first_seen_at: Annotated[datetime | None, _says("Its first sign since yesterday.")]
    stopped_at: Annotated[datetime | None, _says("When it ended, if it said so.")]
    stopped_for: Annotated[str | None, _says("Why it ended, as it said.")]
    drains: Annotated[bool, _says("It was asked to take nothing more, and has said that it does.")]
    is_elsewhere: Annotated[
        bool, _says("It leases over HTTP; several programs may go by the name of its token.")
    ]
    slots: Annotated[int, _says("Jobs that it can run at once.")]
    lost: Annotated[int, _says("Slots lost to handlers that do not return.")]
    kinds: Annotated[list[str], _says("What it runs.")]
    lease_s: Annotated[float | None, _says("Seconds that its leases last.")]
    host: Annotated[str | None, _says("Where it runs.")]
    version: Annotated[str | None, _says("Its version of the queue.")]
    release: Annotated[str | None, _says("Its `QUEUE_RELEASE`.")]
    connections: Annotated[
        int | None, _says("Its connections to the database; null: cannot be told.")
    ]
    clock_ahead_s: Annotated[
        float | None, _says("Seconds by which its clock is ahead of the database's.")
    ]
    held: Annotated[int, _says("Jobs that it holds.")]
    started: Annotated[int, _says("Those among them whose handler has begun.")]
    overdue: Annotated[int, _says("Those among them whose lease has run out.")]
    lease_ends_at: Annotated[datetime | None, _says("When the first of its leases ends.")]


class Workers(Model):
    """Every worker that is known of, the stale ones first."""

    as_of: Annotated[datetime, _says("The instant that it is about.")]
    items: Annotated[list[Worker], _says("The workers; those that ended since yesterday as well.")]
    cut: Annotated[bool, _says("There are more than were looked at, or more running jobs.")]


def listed(roll: Roll) -> dict[str, Any]:
    """All of them."""
    return {
        "as_of": instant(roll.now),
        "items": [told(one) for one in roll.workers],
        "cut": roll.workers_cut or roll.running_cut,
    }


def told(one: Attendance) -> dict[str, Any]:
    """One of them."""
    holding = one.holding
    return {
        "worker": one.name,
        "state": one.state.value,
        "seen_at": instant_or_null(one.seen_at),
        "first_seen_at": instant_or_null(one.first_seen_at),
        "stopped_at": instant_or_null(one.stopped_at),
        "stopped_for": one.stopped_for,
        "drains": one.drains,
        "is_elsewhere": one.is_elsewhere,
        "slots": one.slots,
        "lost": one.lost,
        "kinds": list(one.kinds),
        "lease_s": one.lease_s,
        "host": one.host,
        "version": one.version,
        "release": one.release,
        "connections": one.connections,
        "clock_ahead_s": one.clock_ahead_s,
        "held": one.held,
        "started": holding.started if holding else 0,
        "overdue": holding.overdue if holding else 0,
        "lease_ends_at": instant_or_null(holding.lease_ends_at) if holding else None,
    }
