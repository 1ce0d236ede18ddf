"""What `bin/docs` says of events, reasons and connections, beside their names in the code."""

from __future__ import annotations

from queueapp.connections import bounds
from queueapp.jobs import status

ROLES = {
    bounds.Role.WEB: "web: API and console",
    bounds.Role.WORK: "worker: pump, lease keeper, housekeeping, LISTEN",
    bounds.Role.HANDLER: "handlers: `context.session`, `db.session` in a worker",
    bounds.Role.COMMAND: "commands and migrations",
}

EVENTS = {
    status.Event.ENQUEUED: "a producer created the job",
    status.Event.CLAIMED: "a worker took it: an attempt begins, under a lease",
    status.Event.SUCCEEDED: "the handler returned",
    status.Event.RETRY_SCHEDULED: "the attempt failed, another one is due later",
    status.Event.FAILED: "it ended without success: attempts used up, or for good",
    status.Event.RELEASED: "given back early: shutdown, lost before it began, or by a person",
    status.Event.DEFERRED: "the handler asked to wait, or no handler here knows the kind",
    status.Event.LEASE_EXPIRED: "its holder said nothing until the lease ran out",
    status.Event.CANCELLED: "cancelled for good",
    status.Event.CANCEL_REQUESTED: "somebody asked the running handler to stop",
    status.Event.REQUEUED: "a person pressed retry: all attempts are new",
    status.Event.HELD: "parked by a person, or because its kind is on hold",
    status.Event.UNHELD: "back in the line",
    status.Event.RESCHEDULED: "priority or due time changed",
    status.Event.RESTORED: "a cancel was undone: back to where it stood",
    status.Event.PURGED: "the row was removed; its history stays",
    status.Event.STALE_WRITE_REJECTED: "a result came after the lease was lost, and was refused",
    status.Event.CLONED: "an admin made a new job of what it was asked to do: `data.job`",
    status.Event.QUEUE_PAUSED: "nothing new starts",
    status.Event.QUEUE_RESUMED: "the pause is over",
    status.Event.KIND_HELD: "jobs of a kind are parked",
    status.Event.KIND_UNHELD: "the hold on a kind is over",
    status.Event.CONTROL_CARRIED: "a switch in force, written again before its day is dropped",
    status.Event.WORKER_SEEN: "a worker says that it is there, once a minute",
    status.Event.WORKER_STOPPED: "a worker ended, and why",
    status.Event.DRAIN_REQUESTED: "somebody asked a worker to take nothing more, and to end",
    status.Event.MINUTE_STATS: "a minute of the ledger in one line, for charts",
    status.Event.OP_PLANNED: "a bulk operation was planned",
    status.Event.OP_COUNTED: "how far the jobs of a plan have been counted",
    status.Event.OP_BEGUN: "somebody began a bulk operation, or went on with another's",
    status.Event.OP_CANARY: "the first jobs of a canary retry went ahead, or were decided on",
    status.Event.OP_BATCH: "a batch of a bulk operation is done",
    status.Event.OP_STOPPED: "a bulk operation was stopped",
    status.Event.OP_DONE: "a bulk operation is complete",
}

REASONS = {
    status.Reason.ATTEMPTS_USED_UP: "the last attempt failed",
    status.Reason.PERMANENT: "the handler raised `Fail`, or the outcome could not be stored",
    status.Reason.ASKED_TO_RETRY: "the handler raised `Retry`",
    status.Reason.UNKNOWN_KIND: "no handler in this worker knows the kind; it waits for one",
    status.Reason.INVALID_PAYLOAD: "the stored payload does not fit the handler's signature",
    status.Reason.HANDED_BACK_TOO_OFTEN: "given back `QUEUE_MAX_HANDBACKS` times without an end",
    status.Reason.SHUTDOWN: "the worker stopped before the handler did",
    status.Reason.DATABASE_READ_ONLY: "the job's session met a database that took no writes"
    " (a failover); the attempt is given back",
    status.Reason.PREFETCH_UNUSED: "a prefetched claim waited too long for a thread",
    status.Reason.LEASE_LOST: "the holder vanished in the middle of the attempt",
    status.Reason.LEASE_LOST_BEFORE_START: "the same before the handler began: no attempt is used",
    status.Reason.KILLED_ITS_WORKER: "its process died by itself while it ran there alone",
    status.Reason.TIMED_OUT: "the attempt ran longer than its time-out",
    status.Reason.FINISHED_BEFORE_CANCEL: "the handler succeeded before it saw the cancel request",
    status.Reason.RELEASED_ON_LAST_ATTEMPT: "a person released it and no attempts were left",
    status.Reason.KIND_HELD: "its kind is on hold",
    status.Reason.KIND_UNHELD: "the hold on its kind was lifted",
    status.Reason.EXPIRED: "the time that a pause or a hold was set for is over",
    status.Reason.RETENTION: "older than retention keeps",
    status.Reason.CANARY_FAILED: "too few of the first jobs of a canary retry succeeded",
    status.Reason.CANARY_TIMED_OUT: "too few of them had succeeded in time",
}
