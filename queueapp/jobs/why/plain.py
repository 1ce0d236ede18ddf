"""Events and the product's own reasons, as a sentence about the job says them. Pure."""

from __future__ import annotations

from typing import Any

from queueapp.jobs.status import Event, Reason
from queueapp.jobs.why.facts import Line
from queueapp.jobs.why.words import because

# What was the cause; it stands for itself, and before “and waits to be tried again”.
CAUSES: dict[str, str] = {
    Reason.ATTEMPTS_USED_UP: "its attempts are used up",
    Reason.PERMANENT: "another attempt would not help",
    Reason.ASKED_TO_RETRY: "its handler asked for another attempt",
    Reason.UNKNOWN_KIND: "the worker that had it has no handler for its kind",
    Reason.INVALID_PAYLOAD: "its handler does not take its payload",
    Reason.HANDED_BACK_TOO_OFTEN: "it was handed back too often without a result",
    Reason.SHUTDOWN: "its worker had to end",
    Reason.DATABASE_READ_ONLY: "the database took no writes",
    Reason.PREFETCH_UNUSED: "its worker had no thread free for it",
    Reason.LEASE_LOST: "its worker was lost while it ran",
    Reason.LEASE_LOST_BEFORE_START: "its worker was lost before it began",
    Reason.KILLED_ITS_WORKER: "its worker died while nothing else ran in it",
    Reason.TIMED_OUT: "its attempt took longer than it may",
    Reason.FINISHED_BEFORE_CANCEL: "it was faster than the one who cancelled it",
    Reason.RELEASED_ON_LAST_ATTEMPT: "it was taken from its worker in its last attempt",
}


def cause(reason: str | None) -> str:
    """The product's own reason in words, one of a person as it stands; nothing without one."""
    if not reason:
        return ""
    return CAUSES.get(reason) or f"reason: {' '.join(reason.split())}"


def waits_for(job: Any, line: Line) -> str:
    """Why it is due later, by the line that set its due time."""
    said = _BY_PERSON.get(line.event)
    if said:
        return f"{line.actor} {said}{because(line.reason)}"
    known = CAUSES.get(line.reason or "")
    if line.event == Event.RETRY_SCHEDULED:
        failed = f"its last attempt failed{' with ' + job.error_class if job.error_class else ''}"
        return f"{known or failed}, and it waits to be tried again"
    if line.event in (Event.DEFERRED, Event.RELEASED):
        return f"{known}, and it was put off" if known else "its handler put it off"
    event = line.event.replace("_", " ")
    return f"set by {line.actor} with “{event}”{because(line.reason)}"


_BY_PERSON: dict[str, str] = {
    Event.ENQUEUED: "created it for then",
    Event.RESCHEDULED: "rescheduled it",
    Event.REQUEUED: "retried it",
    Event.RESTORED: "put it back where it was",
}
