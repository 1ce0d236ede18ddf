"""What a worker says: at INFO one line a job, at DEBUG every poll, claim, renewal and progress.

Never a payload, a result or an error's text: logs are read by more people than jobs are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from queueapp.jobs.claim import Claim
from queueapp.jobs.transitions import Death, Expired, Outcome, Progress, Renewal
from queueapp.worker.attempts import Attempt

log = logging.getLogger("queueapp.worker")


def one_line(text: str) -> str:
    """Spell out line breaks: a logged value must not look like a line of its own."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


def claimed(claim: Claim) -> None:
    """A claim reached this process."""
    log.debug(
        "claimed job %d %s attempt %d/%d priority %d%s",
        claim.id, claim.kind, claim.attempt, claim.max_attempts, claim.priority,
        "" if claim.started else " (prefetched)",
    )  # fmt: skip


def returned(attempt: Attempt, outcome: Outcome) -> None:
    """A handler came back; what becomes of it the database has yet to say."""
    log.debug("handler of job %d came back: %s", attempt.claim.id, outcome.verb)


Settled: TypeAlias = tuple[Claim, Outcome, str]


def settled(ended: Sequence[Settled]) -> None:
    """The database has taken outcomes: of each job's story the one line.

    All lines of a level go in one record: each record is a system call, during which the handlers'
    threads take over and keep the pump from its next turn.
    """
    for level, failed in ((logging.INFO, False), (logging.WARNING, True)):
        if log.isEnabledFor(level):
            lines = [_line(*one) for one in ended if _is_failure(*one) is failed]
            if lines:
                log.log(level, "%s", "\n".join(map(one_line, lines)), extra={"lines": True})


def _is_failure(_claim: Claim, outcome: Outcome, status: str) -> bool:
    return outcome.failure is not None and status != "succeeded"


def _line(claim: Claim, outcome: Outcome, status: str) -> str:
    word = _WORDS[outcome.verb] if status == "queued" else status
    waited = (claim.claimed_at - _due(claim)).total_seconds()
    error = f" error {outcome.failure.error_class}" if outcome.failure else ""
    return (
        f"job {claim.id} {claim.kind} {word} attempt {claim.attempt}/{claim.max_attempts}"
        f" waited {_span(waited)} ran {_span(outcome.ran_s)}{error}{_next(outcome, status)}"
    )


_WORDS = {"retry": "will be retried", "release": "handed back", "defer": "deferred"}


def _due(claim: Claim) -> datetime:
    return max(claim.available_at, claim.created_at)


def _next(outcome: Outcome, status: str) -> str:
    if status == "succeeded" and not outcome.reason:
        return ""
    text = f" reason {outcome.reason}" if outcome.reason else ""
    again = status == "queued" and outcome.delay_s is not None
    return text + (f" again in {_span(outcome.delay_s)}" if again else "")


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.1f}s"


def refused(claim: Claim, outcome: Outcome) -> None:
    """The database takes this outcome never more: the lease is lost."""
    log.warning("job %d lease lost: the late result (%s) was refused", claim.id, outcome.verb)


def polled(outcomes: int, room: int, claims: int) -> None:
    """One round trip of the pump."""
    log.debug("poll: settled up to %d, room for %d, claimed %d", outcomes, room, claims)


def renewed(attempt: Attempt, answer: Renewal) -> None:
    """A lease was renewed, or not."""
    level = logging.WARNING if answer in ("lost", "timeout") else logging.DEBUG
    log.log(level, "lease of job %d: %s", attempt.claim.id, answer)


def progressed(report: Progress) -> None:
    """Progress was written; the note is the handler's text and stays out of the log."""
    log.debug("progress of job %d: %d %%", report.id, report.percent)


def expired(lease: Expired) -> None:
    """The sweeper took a lease from its holder."""
    why = "ran longer than its time-out" if lease.timed_out else f"was lost by {lease.holder}"
    log.warning(
        "job %d %s attempt %d %s: now %s", lease.id, lease.kind, lease.attempt, why, lease.status
    )


def bereaved(lease: Expired, death: Death) -> None:
    """The supervisor took a lease back from a process that died."""
    log.warning(
        "job %d %s attempt %d was held by %s, which died (%s): now %s",
        lease.id, lease.kind, lease.attempt, death.holder, death.how, lease.status,
    )  # fmt: skip


def slot_lost(attempt: Attempt, lost: int, slots: int) -> None:
    """A handler does not return although its attempt was given up."""
    log.warning(
        "slot lost: job %d %s attempt %d was given up and its thread does not return"
        " (%d of %d slots lost)",
        attempt.claim.id, attempt.claim.kind, attempt.claim.attempt, lost, slots,
    )  # fmt: skip


def slot_found(attempt: Attempt, lost: int, slots: int) -> None:
    """It has returned after all."""
    log.info(
        "slot free again: the thread of job %d %s has returned (%d of %d slots lost)",
        attempt.claim.id, attempt.claim.kind, lost, slots,
    )  # fmt: skip
