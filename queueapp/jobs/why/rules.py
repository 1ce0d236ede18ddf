"""The rules: why a job stands where it does, in the order in which they are asked. Pure.

A rule answers with a sentence and its evidence, or with None where it does not apply. The first one
that applies is the answer; those after it that stand in the job's way as well are told beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from queueapp.jobs.control import Switch
from queueapp.jobs.status import FINAL, WAITING, Event, Status
from queueapp.jobs.why import in_line, running
from queueapp.jobs.why.facts import Facts, Line
from queueapp.jobs.why.plain import cause, waits_for
from queueapp.jobs.why.words import because, counted, moment, span, till

# Kinds of live workers that the evidence lists.
MOST_KINDS = 50


@dataclass(frozen=True)
class Found:
    """What a rule says of a job. ``next_step``: another than the rule's."""

    sentence: str
    evidence: dict[str, Any]
    next_step: str | None = None


@dataclass(frozen=True)
class Rule:
    """One reason. ``blocks``: told beside another answer too, for it stands in the way as well."""

    code: str
    about: str
    next_step: str
    fields: tuple[str, ...]
    look: Callable[[Facts], Found | None]
    blocks: bool = False


def _final(facts: Facts) -> Found | None:
    job = facts.job
    if job.status not in FINAL:
        return None
    line = next((line for line in facts.lines if line.to_status == job.status), None)
    said = f"It {_ENDED[job.status]} {span((facts.now - job.finished_at).total_seconds())} ago"
    if job.status != Status.SUCCEEDED and job.error_class:
        said += f", the last error {job.error_class}{because(job.error_message)}"
    if line and line.reason:
        said += f"; {cause(line.reason)}"
    return Found(
        f"{said}.",
        {
            "ended_at": job.finished_at,
            "by": line and line.actor,
            "reason": line and line.reason,
            "attempts": job.attempts,
            "max_attempts": job.max_attempts,
            "error_class": job.error_class,
            "error_message": job.error_message,
        },
    )


_ENDED = {Status.SUCCEEDED: "succeeded", Status.FAILED: "failed", Status.CANCELLED: "was cancelled"}


def _lease_expired(facts: Facts) -> Found | None:
    told = running.lease_expired(facts)
    return told and Found(*told)


def _running(facts: Facts) -> Found | None:
    told = running.running(facts)
    return told and Found(*told, running.step(facts))


def _held(facts: Facts) -> Found | None:
    if facts.job.status != Status.HELD or facts.job.held_for != "job":
        return None
    line = next((line for line in facts.lines if line.event == Event.HELD), None)
    if line is None:
        return Found("It is on hold; the line that says by whom is not among its newest.",
                     {"by": None, "since": None, "reason": None})  # fmt: skip
    ago = span((facts.now - line.created_at).total_seconds())
    return Found(
        f"It was put on hold by {line.actor} {ago} ago{because(line.reason)}.",
        {"by": line.actor, "since": line.created_at, "reason": line.reason},
    )


def _due_later(facts: Facts) -> Found | None:
    job = facts.job
    if job.status != Status.QUEUED or facts.waited_s >= 0:
        return None
    mover = _mover(facts)
    why = f": {waits_for(job, mover)}" if mover else ""
    return Found(
        f"It is due in {span(-facts.waited_s)}, at {moment(job.available_at)}{why}.",
        {
            "available_at": job.available_at,
            "due_in_s": -facts.waited_s,
            "moved_by": mover and {
                "event_id": mover.id, "event": mover.event, "by": mover.actor,
                "reason": mover.reason,
                "at": mover.created_at,
            },
            "attempts": job.attempts,
            "max_attempts": job.max_attempts,
            "error_class": job.error_class,
            "handbacks": job.handbacks,
        },
        running.step_after_losses(job),
    )  # fmt: skip


def _mover(facts: Facts) -> Line | None:
    """The event that gave the job the due time it has: later ones may only repeat it."""
    found = None
    for line in facts.lines:
        if line.available_at == facts.job.available_at:
            found = line
        elif line.available_at is not None:
            break
    return found


def _kind_held(facts: Facts) -> Found | None:
    kind, status = facts.job.kind, facts.job.status
    switch = facts.controls.latest.get(f"kind:{kind}")
    if status not in WAITING or not switch or switch.event is not Event.KIND_HELD:
        return None
    evidence = {"kind": kind, **_of_switch(switch), "moved": facts.job.held_for == "kind"}
    return Found(f"Its kind {kind} was put on hold by {_since(switch, facts)}.", evidence)


def _hold_lifted(facts: Facts) -> Found | None:
    if facts.job.status != Status.HELD or facts.job.held_for != "kind" or _kind_held(facts):
        return None
    kind = facts.job.kind
    return Found(
        f"The hold on its kind {kind} is over; workers bring its jobs back batch by batch.",
        {"kind": kind, "live_workers": len(facts.keepers)},
    )


def _queue_paused(facts: Facts) -> Found | None:
    switch = facts.controls.pause
    if facts.job.status not in WAITING or switch is None:
        return None
    return Found(f"The queue was paused by {_since(switch, facts)}.", _of_switch(switch))


def _of_switch(switch: Switch) -> dict[str, Any]:
    return {"by": switch.actor, "since": switch.at, "reason": switch.reason}


def _since(switch: Switch, facts: Facts) -> str:
    ago = span((facts.now - switch.at).total_seconds())
    ends = till(switch.until)
    if switch.is_over(facts.now):
        ends = ", its time is over, and a worker lifts it"
        ends += "" if facts.keepers else ", but none is alive"
    return f"{switch.actor} {ago} ago{because(switch.reason)}{ends}"


def _no_live_worker(facts: Facts) -> Found | None:
    live = facts.live
    if facts.job.status not in WAITING or not facts.knows_workers or _is_run_elsewhere(facts):
        return None
    if any(worker.slots for worker in live):
        return None
    last = max(facts.workers, key=lambda worker: worker.seen_at, default=None)
    evidence = {
        "last_worker": last and last.holder,
        "last_seen_at": last and last.seen_at,
        "stopped_at": last and last.stopped_at,
        "stopped_for": last and last.stopped_for,
        "live_without_slots": len(live),
    }
    if live:
        said = f"No worker can run jobs: {counted(len(live), 'live worker')} without a free thread"
        why = "(`--concurrency 0`, all lost, or asked to drain)"
        return Found(f"{said} of its own to run one {why}.", evidence)
    if last is None:
        return Found("No worker is running: none was seen today or yesterday.", evidence)
    ago = span((facts.now - (last.stopped_at or last.seen_at)).total_seconds())
    end = f"was seen {ago} ago"
    if last.stopped_at:
        end = f"stopped {ago} ago{because(last.stopped_for)}"
    elif last.holder in facts.unconnected:
        end = f"is unconnected, it was seen {ago} ago"
    return Found(f"No worker is running: the last one, {last.holder}, {end}.", evidence)


def _no_worker_for_kind(facts: Facts) -> Found | None:
    live = [worker for worker in facts.live if worker.slots]
    if facts.job.status not in WAITING or not facts.knows_workers or _is_run_elsewhere(facts):
        return None
    if not live or facts.able:
        return None
    kinds = sorted({kind for worker in live for kind in worker.kinds})
    only = "the live worker takes" if len(live) == 1 else f"of {len(live)} live workers none takes"
    not_it = " other kinds only" if len(live) == 1 else " it"
    return Found(
        f"No live worker runs the kind {facts.job.kind}: {only}{not_it}.",
        {
            "kind": facts.job.kind,
            "live_workers": len(live),
            "live_kinds": kinds[:MOST_KINDS],
            "handbacks": facts.job.handbacks,
        },
    )


def _is_run_elsewhere(facts: Facts) -> bool:
    """Whether somebody, a worker that signs no ledger too, holds a live lease on the same kind."""
    return any(h.has_kind and h.name not in facts.unconnected for h in facts.holders)


def _jobs_ahead(facts: Facts) -> Found | None:
    told = in_line.jobs_ahead(facts)
    return told and Found(*told)


def _slots_busy(facts: Facts) -> Found | None:
    told = in_line.slots_busy(facts)
    return told and Found(*told)


def _next_in_line(facts: Facts) -> Found | None:
    told = in_line.next_in_line(facts)
    return told and Found(*told)
