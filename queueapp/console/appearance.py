"""How a job looks in a list: the word for where it stands, the instant that matters, its verbs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from queueapp.jobs.models import Job
from queueapp.jobs.status import FINAL, Status, Verb, verbs_from

# What the buttons say, in their order, and the verb behind each.
BUTTONS = {
    "retry": Verb.REQUEUE, "run-now": Verb.RESCHEDULE, "hold": Verb.HOLD, "unhold": Verb.UNHOLD,
    "reschedule": Verb.RESCHEDULE, "cancel": Verb.CANCEL, "purge": Verb.PURGE,
}  # fmt: skip
# Those that stand in each row of a list; the page of the job has them all.
IN_ROWS = ("retry", "cancel")


@dataclass(frozen=True)
class Moment:
    """The instant that matters now, and the word before it: ``waiting 4m 12s``."""

    word: str
    at: datetime | None

    @property
    def is_past(self) -> bool:
        """Whether something happened then, rather than has lasted since: ``ended 52s ago``."""
        return self.word in ("ended", "created")


def shown_status(job: Job, now: datetime) -> str:
    """The status, with queued jobs that wait for their time told apart."""
    if job.status == Status.QUEUED and job.available_at > now:
        return "retrying" if job.attempts else "scheduled"
    return job.status


def moment_of(job: Job, now: datetime) -> Moment:
    """What a reader of a list wants to know about time."""
    if job.status == Status.QUEUED:
        if job.available_at > now:
            return Moment("due in", job.available_at)
        # Due before it was there, it waits since it is there.
        return Moment("waiting", max(job.available_at, job.created_at))
    if job.status == Status.RUNNING:
        return Moment("running" if job.started_at else "claimed", job.started_at or job.claimed_at)
    if job.status in FINAL:
        return Moment("ended", job.finished_at)
    return Moment("created", job.created_at)


def buttons_of(job: Job, now: datetime) -> list[str]:
    """The buttons that the job allows as it stands."""
    allowed = verbs_from(Status(job.status))
    return [
        button
        for button, verb in BUTTONS.items()
        if verb in allowed and _would_change(button, job, now)
    ]


def _would_change(button: str, job: Job, now: datetime) -> bool:
    if button == "cancel":
        # Who was asked to stop is not asked again.
        return job.cancel_requested_at is None
    if button == "unhold":
        # With its kind it comes back when that hold is lifted.
        return job.held_for != "kind"
    if button == "run-now":
        return job.status == Status.QUEUED and job.available_at > now
    return True
