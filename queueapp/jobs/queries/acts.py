"""What people do, and one act of theirs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from queueapp.jobs.status import Event


class Did(StrEnum):
    """What people do, in the words of their buttons; first to jobs, then to the queue."""

    RETRY = "retry"
    CANCEL = "cancel"
    HOLD = "hold"
    UNHOLD = "unhold"
    RESCHEDULE = "reschedule"
    RELEASE = "release"
    CLONE = "clone"
    PURGE = "purge"
    PAUSE = "pause"
    RESUME = "resume"
    HOLD_KIND = "hold-kind"
    UNHOLD_KIND = "unhold-kind"
    DRAIN = "drain"
    PLAN = "plan"
    BEGIN = "begin"
    STOP = "stop"
    FINISH = "finish"
    # Plans of one sort: a filter knows them apart, an act of theirs is a plan.
    RUN_NOW = "run-now"
    UNDO = "undo"
    CANARY = "canary"


EVENTS: Mapping[Did, tuple[Event, ...]] = {
    Did.RETRY: (Event.REQUEUED,),
    Did.CANCEL: (Event.CANCELLED, Event.CANCEL_REQUESTED),
    Did.HOLD: (Event.HELD,),
    Did.UNHOLD: (Event.UNHELD,),
    Did.RESCHEDULE: (Event.RESCHEDULED,),
    # A release can be the end of a job.
    Did.RELEASE: (Event.RELEASED, Event.FAILED),
    Did.CLONE: (Event.CLONED,),
    Did.PURGE: (Event.PURGED,),
    Did.PAUSE: (Event.QUEUE_PAUSED,),
    Did.RESUME: (Event.QUEUE_RESUMED,),
    Did.HOLD_KIND: (Event.KIND_HELD,),
    Did.UNHOLD_KIND: (Event.KIND_UNHELD,),
    Did.DRAIN: (Event.DRAIN_REQUESTED,),
    Did.PLAN: (Event.OP_PLANNED,),
    Did.BEGIN: (Event.OP_BEGUN,),
    Did.STOP: (Event.OP_STOPPED,),
    Did.FINISH: (Event.OP_DONE,),
    Did.RUN_NOW: (Event.OP_PLANNED,),
    Did.UNDO: (Event.OP_PLANNED,),
    Did.CANARY: (Event.OP_PLANNED,),
}
OF_PLANS = (Did.RUN_NOW, Did.UNDO, Did.CANARY)
DIDS: Mapping[str, Did] = {
    event: did for did, events in EVENTS.items() if did not in OF_PLANS for event in events
}
TO_QUEUE = tuple(Did)[tuple(Did).index(Did.PAUSE) :]
TO_JOBS = tuple(did for did in Did if did not in TO_QUEUE)


@dataclass(frozen=True, kw_only=True)
class ActFilter:
    """What the trail is narrowed to. ``since`` is included, ``until`` is not."""

    actor: str | None = None
    dids: tuple[Did, ...] = tuple(Did)
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Act:
    """One act. ``jobs``: how many were moved, ``job_id`` the first, ``kind`` one of ``kinds``.

    ``scope``: of a switch ``queue`` or ``kind:<kind>``, of an operation ``op:<id>``, of a drain
    ``worker:<name>``; None for moves of jobs. ``told``: what its line says of an operation or a
    switch.
    """

    id: int
    at: datetime
    did: Did
    event: Event
    actor: str
    reason: str | None
    jobs: int
    job_id: int | None
    kind: str | None
    kinds: int
    scope: str | None
    via: str | None
    request_id: str | None
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operation(self) -> str | None:
        """The id of the operation that it is about."""
        scope = self.scope or ""
        return scope.removeprefix("op:") if scope.startswith("op:") else None

    @property
    def held_kind(self) -> str | None:
        """The kind that it holds or lets go."""
        scope = self.scope or ""
        return scope.removeprefix("kind:") if scope.startswith("kind:") else None

    @property
    def worker(self) -> str | None:
        """The worker that is asked to drain."""
        scope = self.scope or ""
        return scope if scope.startswith("worker:") else None

    @property
    def until(self) -> datetime | None:
        """When a pause or a hold was to end by itself."""
        try:
            at = datetime.fromisoformat(str(self.told.get("until")))
        except ValueError:
            return None
        return at if at.tzinfo else None

    @property
    def planned(self) -> int | None:
        """How many jobs an operation was planned for; at least so many unless all were counted."""
        counts = self.told.get("counts")
        if not isinstance(counts, dict):
            return None
        return sum(number for number in counts.values() if isinstance(number, int))

    @property
    def moved(self) -> int | None:
        """How many jobs an operation has moved by its end."""
        moved = self.told.get("moved")
        return moved if isinstance(moved, int) else None
