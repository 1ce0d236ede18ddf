"""What is said of a running job: by its row, its kind's usual run, and its holder's last sign."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from queueapp.jobs.presence import SILENT_PART, Worker
from queueapp.jobs.queries.drain import instant
from queueapp.jobs.status import Status
from queueapp.jobs.why.facts import Busy, Facts
from queueapp.jobs.why.words import asked, because, counted, span

# From so many attempts on, the last one lost with its worker, waiting for the next is no advice.
MANY_LOST = 2

Told = tuple[str, dict[str, Any]]


def lease_expired(facts: Facts) -> Told | None:
    """The lease has run out, and nobody has taken the job back yet."""
    job = facts.job
    if job.status != Status.RUNNING or job.lease_expires_at > facts.now:
        return None
    overdue = (facts.now - job.lease_expires_at).total_seconds()
    ends_at = _ends_at(facts)
    timed_out = ends_at is not None and ends_at <= facts.now
    # A holder that lives would have renewed it: it hangs.
    alive = [one for one in facts.keepers if timed_out or one.holder != job.locked_by]
    sweepers = len(alive)
    what = "Its attempt timed out" if timed_out else f"The lease of {job.locked_by} ran out"
    then = "a sweeper takes it back within seconds"
    if not sweepers:
        then = "no live worker is known that would take it back"
    return f"{what} {span(overdue)} ago; {then}.", {
        "holder": job.locked_by,
        "lease_expires_at": job.lease_expires_at,
        "overdue_s": overdue,
        "timed_out": timed_out,
        "live_workers": sweepers,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
    }


def running(facts: Facts) -> Told | None:
    """Somebody has it, under a lease."""
    job = facts.job
    if job.status != Status.RUNNING:
        return None
    holder = _holder(facts)
    renewed_at = _renewed_at(facts, holder)
    is_silent, silent_s = _silence(facts)
    run_s = None if job.started_at is None else (facts.now - job.started_at).total_seconds()
    evidence = {
        "holder": job.locked_by,
        "holder_is_live": holder and holder.is_live(facts.now) and not _is_cut_off(facts),
        "claimed_at": job.claimed_at,
        "started_at": job.started_at,
        "lease_age_s": (facts.now - job.claimed_at).total_seconds(),
        "lease_expires_at": job.lease_expires_at,
        "lease_left_s": (job.lease_expires_at - facts.now).total_seconds(),
        "renewed_at": renewed_at,
        "is_silent": is_silent,
        "run_s": run_s,
        "usual_p95_s": facts.usual_s,
        "usual_runs": facts.runs,
        "times_out_at": _ends_at(facts),
        "progress": job.progress,
        "progress_note": job.progress_note,
        "cancel_requested_at": job.cancel_requested_at,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
    }
    parts = [_how_long(facts, run_s), *_progress(facts), *_warnings(facts, is_silent, silent_s)]
    return f"{'; '.join(parts)}.", evidence


def runner(holder: Busy, now: datetime) -> dict[str, Any]:
    """The job that a holder has been at for the longest."""
    began = instant(holder.longest["started_at"])
    assert began is not None
    run_s = (now - began).total_seconds()
    return {**holder.longest, "started_at": began, "run_s": run_s, "holder": holder.name}


def _how_long(facts: Facts, run_s: float | None) -> str:
    job = facts.job
    if run_s is None:
        held = span((facts.now - job.claimed_at).total_seconds())
        return f"It was claimed {held} ago by {job.locked_by}, where it waits for a thread to begin"
    said = f"It has been running for {span(run_s)} in {job.locked_by}"
    if facts.usual_s is None:
        return f"{said}, how long its kind usually takes is not known"
    how = "longer than" if run_s > facts.usual_s else "within"
    return f"{said}, {how} the {span(facts.usual_s)} in which 95 of 100 of its kind end"


def _progress(facts: Facts) -> list[str]:
    job = facts.job
    return [] if job.progress is None else [f"at {job.progress} %{because(job.progress_note)}"]


def _silence(facts: Facts) -> tuple[bool | None, float | None]:
    """Whether the holder has not renewed the lease for too long, and how long; or None."""
    holder = _holder(facts)
    renewed_at = _renewed_at(facts, holder)
    if holder is None or renewed_at is None or not holder.lease_s:
        return None, None
    silent_s = (facts.now - renewed_at).total_seconds()
    return silent_s > holder.lease_s * SILENT_PART, silent_s


def _is_cut_off(facts: Facts) -> bool:
    return facts.job.locked_by in facts.unconnected


def _warnings(facts: Facts, is_silent: bool | None, silent_s: float | None) -> list[str]:
    job, said = facts.job, []
    if _is_cut_off(facts):
        left = span((job.lease_expires_at - facts.now).total_seconds())
        said.append(f"that worker has no connection to the database; its lease runs out in {left}")
    elif is_silent and silent_s is not None:
        left = span((job.lease_expires_at - facts.now).total_seconds())
        said.append(f"its lease was last renewed {span(silent_s)} ago and runs out in {left}")
    if job.cancel_requested_at is not None:
        ago = span((facts.now - job.cancel_requested_at).total_seconds())
        said.append(f"it was asked to stop {ago} ago")
    if job.attempts > 1:
        said.append(f"it is attempt {job.attempts} of {counted(job.max_attempts, 'attempt')}")
    return said


def _ends_at(facts: Facts) -> datetime | None:
    """When the attempt times out; None without a start or a limit."""
    if facts.job.started_at is None or not facts.job_timeout_s:
        return None
    ends: datetime = facts.job.started_at + timedelta(seconds=facts.job_timeout_s)
    return ends


def _holder(facts: Facts) -> Worker | None:
    """The worker that has it; of the signs of one elsewhere the latest for the job's kind."""
    signs = [worker for worker in facts.workers if worker.holder == facts.job.locked_by]
    return max(signs, key=lambda one: (facts.job.kind in one.kinds, one.seen_at), default=None)


def _renewed_at(facts: Facts, holder: Worker | None) -> datetime | None:
    """When the lease was last renewed, or taken: its end less its length.

    None where the length is not known, is another one, or the time-out has cut it short.
    """
    if holder is None or not holder.lease_s:
        return None
    expires: datetime = facts.job.lease_expires_at
    ends = _ends_at(facts)
    if ends is not None and expires >= ends - timedelta(seconds=1):
        return None
    renewed = expires - timedelta(seconds=holder.lease_s)
    if renewed > facts.now:
        return None
    claimed: datetime = facts.job.claimed_at
    return max(renewed, claimed)


def step(facts: Facts) -> str | None:
    """What to do about a running job whose worker is gone, or that was asked to stop already."""
    if facts.job.status != Status.RUNNING:
        return None
    if _is_cut_off(facts) or _silence(facts)[0]:
        return _without_holder(facts)
    return asked("its") if facts.job.cancel_requested_at else None


def _without_holder(facts: Facts) -> str:
    if facts.keepers:
        return (
            "Its worker is gone or hangs: wait until the lease ends, then a sweeper takes it back;"
            " or release it now, if you know that the worker does not work on."
        )
    return "Start `flask work`: nobody is there to take it back when its lease ends."


def step_after_losses(job: Any) -> str | None:
    """What to do about a job whose last attempts may have been lost with their workers."""
    if job.error_class != "LeaseLost" or job.attempts < MANY_LOST:
        return None
    return (
        "Find out what became of its workers before it is due; if it ends them, hold or cancel it."
    )
