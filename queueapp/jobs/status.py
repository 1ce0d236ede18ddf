"""Statuses, event names and the table of legal moves. Pure: no database, no Flask.

The table ``MOVES`` is at once the diagram, the guard (every statement takes its source statuses
from here), the buttons of the console, the test matrix and the documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Status(StrEnum):
    """Where a job stands. "Scheduled" and "retrying" are queued rows with a later available_at."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    HELD = "held"


FINAL = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)
WAITING = (Status.QUEUED, Status.HELD)

HeldFor = Literal["kind", "job"]


class Verb(StrEnum):
    """What can be done to a job."""

    ENQUEUE = "enqueue"
    CLAIM = "claim"
    RENEW = "renew"
    PROGRESS = "progress"
    SUCCEED = "succeed"
    FAIL = "fail"
    RELEASE = "release"
    DEFER = "defer"
    EXPIRE = "expire"
    CANCEL = "cancel"
    REQUEUE = "requeue"
    HOLD = "hold"
    UNHOLD = "unhold"
    RESCHEDULE = "reschedule"
    RESTORE = "restore"
    PURGE = "purge"


class Event(StrEnum):
    """Every name that may stand in ``job_events.event``: the list is closed."""

    # of a job
    ENQUEUED = "enqueued"
    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    RETRY_SCHEDULED = "retry_scheduled"
    FAILED = "failed"
    RELEASED = "released"
    DEFERRED = "deferred"
    LEASE_EXPIRED = "lease_expired"
    CANCELLED = "cancelled"
    CANCEL_REQUESTED = "cancel_requested"
    REQUEUED = "requeued"
    HELD = "held"
    UNHELD = "unheld"
    RESCHEDULED = "rescheduled"
    RESTORED = "restored"
    PURGED = "purged"
    STALE_WRITE_REJECTED = "stale_write_rejected"
    CLONED = "cloned"
    # of the queue, a kind, a worker or an operation: job_id is NULL, a scope's latest is the state
    QUEUE_PAUSED = "queue_paused"
    QUEUE_RESUMED = "queue_resumed"
    KIND_HELD = "kind_held"
    KIND_UNHELD = "kind_unheld"
    CONTROL_CARRIED = "control_carried"
    WORKER_SEEN = "worker_seen"
    WORKER_STOPPED = "worker_stopped"
    DRAIN_REQUESTED = "drain_requested"
    MINUTE_STATS = "minute_stats"
    OP_PLANNED = "op_planned"
    OP_COUNTED = "op_counted"
    OP_BEGUN = "op_begun"
    OP_CANARY = "op_canary"
    OP_BATCH = "op_batch"
    OP_STOPPED = "op_stopped"
    OP_DONE = "op_done"


class Reason(StrEnum):
    """Reasons that the product itself writes into ``job_events.reason``; people write free text."""

    ATTEMPTS_USED_UP = "attempts_used_up"
    PERMANENT = "permanent"
    ASKED_TO_RETRY = "asked_to_retry"
    UNKNOWN_KIND = "unknown_kind"
    INVALID_PAYLOAD = "invalid_payload"
    HANDED_BACK_TOO_OFTEN = "handed_back_too_often"
    SHUTDOWN = "shutdown"
    DATABASE_READ_ONLY = "database_read_only"
    PREFETCH_UNUSED = "prefetch_unused"
    LEASE_LOST = "lease_lost"
    LEASE_LOST_BEFORE_START = "lease_lost_before_start"
    KILLED_ITS_WORKER = "killed_its_worker"
    TIMED_OUT = "timed_out"
    FINISHED_BEFORE_CANCEL = "finished_before_cancel"
    RELEASED_ON_LAST_ATTEMPT = "released_on_last_attempt"
    KIND_HELD = "kind_held"
    KIND_UNHELD = "kind_unheld"
    EXPIRED = "expired"
    RETENTION = "retention"
    CANARY_FAILED = "canary_failed"
    CANARY_TIMED_OUT = "canary_timed_out"


# Lines of a job that move nothing and change nothing of it: from no status to none.
ASIDE = (Event.STALE_WRITE_REJECTED, Event.CLONED)
CONTROL_EVENTS = tuple(Event)[tuple(Event).index(Event.QUEUE_PAUSED) :]


@dataclass(frozen=True)
class Move:
    """One arrow of the life of a job. ``source`` None: no row yet; ``target`` None: row gone."""

    verb: Verb
    source: Status | None
    target: Status | None
    event: Event
    who: str


def _moves(
    verb: Verb, sources: tuple[Status | None, ...], target: Status | None, event: Event, who: str
) -> tuple[Move, ...]:
    return tuple(Move(verb, source, target, event, who) for source in sources)


_RUNNING = (Status.RUNNING,)

MOVES: tuple[Move, ...] = (
    *_moves(Verb.ENQUEUE, (None,), Status.QUEUED, Event.ENQUEUED, "producer"),
    *_moves(Verb.CLAIM, (Status.QUEUED,), Status.RUNNING, Event.CLAIMED, "worker"),
    *_moves(Verb.SUCCEED, _RUNNING, Status.SUCCEEDED, Event.SUCCEEDED, "worker"),
    *_moves(Verb.FAIL, _RUNNING, Status.QUEUED, Event.RETRY_SCHEDULED, "worker, sweeper"),
    *_moves(Verb.FAIL, _RUNNING, Status.FAILED, Event.FAILED, "worker, sweeper"),
    *_moves(Verb.FAIL, _RUNNING, Status.CANCELLED, Event.CANCELLED, "worker, sweeper"),
    *_moves(Verb.RELEASE, _RUNNING, Status.QUEUED, Event.RELEASED, "worker, person"),
    *_moves(Verb.RELEASE, _RUNNING, Status.FAILED, Event.FAILED, "worker, person"),
    *_moves(Verb.RELEASE, _RUNNING, Status.CANCELLED, Event.CANCELLED, "worker, person"),
    *_moves(Verb.DEFER, _RUNNING, Status.QUEUED, Event.DEFERRED, "worker"),
    *_moves(Verb.DEFER, _RUNNING, Status.FAILED, Event.FAILED, "worker"),
    *_moves(Verb.DEFER, _RUNNING, Status.CANCELLED, Event.CANCELLED, "worker"),
    *_moves(Verb.EXPIRE, _RUNNING, Status.RUNNING, Event.LEASE_EXPIRED, "sweeper, supervisor"),
    *_moves(Verb.CANCEL, WAITING, Status.CANCELLED, Event.CANCELLED, "person, producer"),
    *_moves(Verb.CANCEL, _RUNNING, Status.RUNNING, Event.CANCEL_REQUESTED, "person, producer"),
    *_moves(Verb.CANCEL, _RUNNING, Status.CANCELLED, Event.CANCELLED, "worker"),
    *_moves(
        Verb.REQUEUE,
        (Status.FAILED, Status.CANCELLED),
        Status.QUEUED,
        Event.REQUEUED,
        "person, housekeeping",
    ),
    *_moves(Verb.HOLD, (Status.QUEUED,), Status.HELD, Event.HELD, "person, housekeeping"),
    *_moves(Verb.UNHOLD, (Status.HELD,), Status.QUEUED, Event.UNHELD, "person, housekeeping"),
    *_moves(
        Verb.RESCHEDULE, (Status.QUEUED,), Status.QUEUED, Event.RESCHEDULED, "person, producer"
    ),
    *_moves(Verb.RESCHEDULE, (Status.HELD,), Status.HELD, Event.RESCHEDULED, "person, producer"),
    # The undo of a cancel: back to where the job stood, whatever that was.
    *_moves(Verb.RESTORE, (Status.CANCELLED,), Status.QUEUED, Event.RESTORED, "person"),
    *_moves(Verb.RESTORE, (Status.CANCELLED,), Status.HELD, Event.RESTORED, "person"),
    *_moves(Verb.PURGE, FINAL, None, Event.PURGED, "retention, admin"),
)

# Verbs that write the row but are not moves: the status stays and no event is written.
ROW_ONLY = {Verb.RENEW: Status.RUNNING, Verb.PROGRESS: Status.RUNNING}

_LEGAL = {(move.event, move.source, move.target) for move in MOVES}


def is_legal(event: Event, source: Status | None, target: Status | None) -> bool:
    """Whether the ledger may show ``event`` taking a job from ``source`` to ``target``."""
    return (event, source, target) in _LEGAL


def sources(verb: Verb) -> tuple[Status, ...]:
    """The statuses in which ``verb`` is allowed, in the order of the table, each once."""
    if verb in ROW_ONLY:
        return (ROW_ONLY[verb],)
    found = dict.fromkeys(m.source for m in MOVES if m.verb is verb and m.source is not None)
    return tuple(found)


def verbs_from(status: Status) -> tuple[Verb, ...]:
    """The verbs that a job in ``status`` allows: what the console may offer."""
    return tuple(dict.fromkeys(m.verb for m in MOVES if m.source is status))
