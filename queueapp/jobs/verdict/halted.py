"""Rules for a queue that does not move: nobody works, somebody stopped it, or it hangs. Pure."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from queueapp.jobs.control import Switch
from queueapp.jobs.presence import Worker
from queueapp.jobs.verdict.facts import Facts, HeldKind
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.minutes import total
from queueapp.jobs.verdict.rule import Said
from queueapp.jobs.verdict.since import last_heard, latest, resumed_at, working_since
from queueapp.jobs.verdict.stuck import (
    asked_to_stop,
    busy,
    locked,
    longest_run,
    nothing_ends,
    run_limit,
    usually,
    way_out,
)
from queueapp.jobs.verdict.words import due, due_of_it, name_of, share_of_workers, the_oldest
from queueapp.jobs.why.words import because, counted, span, till

# The page that asks, for who may do it; what others may see of the pause.
_RESUME = ("/resume", "/kinds", "/events?event=queue_paused")


def no_workers(facts: Facts) -> Said | None:
    """Work is there, and nobody lives to do it."""
    signs, line = facts.signs, facts.line
    assert signs is not None
    assert line is not None
    if signs.alive(facts.now) or not signs.all_known or not is_work(facts):
        return None
    last = max(signs.workers, key=lambda one: last_heard(facts, one), default=None)
    oldest = line.oldest
    since = last_heard(facts, last) if last else oldest.at if oldest else None
    live = len(signs.live(facts.now))
    parts = [share_of_workers(0, facts.expected_workers), _last(facts, last, live)]
    parts.append(_left(facts))
    return Said(
        Level.RED,
        "; ".join(parts) + ".",
        since,
        {
            "expected_workers": facts.expected_workers or None,
            "last_worker": last and last.holder,
            "last_seen_at": last and last_heard(facts, last),
            "stopped_at": last and last.stopped_at,
            "stopped_for": last and last.stopped_for,
            "live_without_slots": live,
            "due": line.due,
            "oldest_due_at": oldest and oldest.at,
            "overdue_leases": line.overdue,
            "running": line.running,
        },
        ("/workers", "/events?event=worker_seen"),
    )


def is_work(facts: Facts) -> bool:
    """Whether there is anything to do: also to take back what nobody who lives is running."""
    line, signs = facts.line, facts.signs
    if line is None or signs is None:
        return False
    return bool(line.due or line.overdue or (line.running and not signs.live(facts.now)))


def _last(facts: Facts, last: Worker | None, live: int) -> str:
    signed = facts.signs.live(facts.now) if facts.signs else []
    drains = sum(bool(one.told.get("drains")) for one in signed)
    if live:
        why = f" ({drains:,} asked to drain)" if drains else ""
        return f"{counted(live, 'live worker')} without a thread to run a job{why}"
    if last is None:
        return "none was seen today or yesterday"
    ago = span(facts.age_s(last_heard(facts, last)))
    if facts.signs and last.is_live(facts.now) and facts.signs.is_cut_off(last):
        return f"{name_of(last.holder)} is unconnected, it was seen {ago} ago"
    if facts.signs and last.holder in facts.signs.overtaken:
        return f"{name_of(last.holder)} hangs: it renewed its leases {ago} ago, and they ran out"
    if last.stopped_at:
        return f"the last one, {name_of(last.holder)}, stopped {ago} ago{because(last.stopped_for)}"
    return f"the last one, {name_of(last.holder)}, was seen {ago} ago"


def _left(facts: Facts) -> str:
    line = facts.line
    assert line is not None
    if line.oldest is None and line.overdue:
        return f"{counted(line.overdue, 'job')} of workers that are gone wait to be taken back"
    if line.oldest is None:
        left = span((line.first_expiry - facts.now).total_seconds()) if line.first_expiry else "0 s"
        held = "is held" if line.running == 1 else "are held"
        return (
            f"{counted(line.running, 'job')} {held} by workers that are gone; the first lease ends"
            f" in {left}, and nobody is there to take it back"
        )
    waiting = due(line.due, is_least=line.is_least)
    of = the_oldest(is_cut=line.is_cut)
    return f"{waiting}, {of} for {span(facts.age_s(line.oldest.at))}"


def paused(facts: Facts) -> Said | None:
    """Somebody stopped the queue or a kind, and jobs wait behind it."""
    controls, line = facts.controls, facts.line
    assert controls is not None
    assert line is not None
    pause = controls.pause if line.due else None
    held = sorted(line.held, key=lambda one: -one.jobs)
    if pause is None and not held:
        return None
    since = [line.oldest.at] if pause and line.oldest else []
    oldest = min([*since, *(one.at for one in held)])
    waited = facts.age_s(oldest)
    parts = [_pause(facts, pause)] if pause else []
    parts += [_hold(facts, one) for one in held[:1]]
    parts += [found] if pause and (found := locked(facts)) else []
    if held and pause is None and _nobody(facts):
        parts.append("no worker is alive to run them")
    if len(held) > 1:
        parts.append(f"{counted(len(held) - 1, 'more kind')} on hold with jobs that wait")
    which = "The oldest of them" if not line.is_cut else "The oldest looked at"
    first = pause or controls.latest.get(f"kind:{held[0].kind}" if held else "")
    return Said(
        Level.RED if waited > facts.thresholds.paused else Level.AMBER,
        f"{'; '.join(parts)}. {which} has waited {span(waited)}.",
        first.at if first else None,
        {
            "paused_by": pause and pause.actor,
            "paused_at": pause and pause.at,
            "reason": first and first.reason,
            "due": line.due if pause else 0,
            "held_kinds": [one.kind for one in held],
            "held_due": sum(one.jobs for one in held),
            "oldest_due_at": oldest,
        },
        (_RESUME if pause else _hold_paths(held[0])),
        "Resume the queue when the reason is gone." if pause else None,
        None if pause else "On hold",
    )


def _pause(facts: Facts, pause: Switch) -> str:
    assert facts.line is not None
    ago = span(facts.age_s(pause.at))
    behind = due(facts.line.due, is_least=facts.line.is_least)
    why = f"{because(pause.reason)}{_till(facts, pause)}"
    return f"The queue was paused by {pause.actor} {ago} ago{why}: {behind}"


def _hold(facts: Facts, held: HeldKind) -> str:
    assert facts.controls is not None
    switch = facts.controls.latest.get(f"kind:{held.kind}")
    by = ""
    if switch:
        by = f" by {switch.actor} {span(facts.age_s(switch.at))} ago{because(switch.reason)}"
        by += _till(facts, switch)
    jobs = due_of_it(held.jobs, is_least=held.is_least)
    return f"{held.kind} was put on hold{by}: {jobs}"


def _till(facts: Facts, switch: Switch) -> str:
    """When it ends by itself; one whose time is over goes on until a worker lifts it."""
    if not switch.is_over(facts.now):
        return till(switch.until)
    assert switch.until is not None
    ago = span(facts.age_s(switch.until))
    lifted = "no worker is alive to lift it" if _nobody(facts) else "a worker lifts it"
    return f", its time is over since {ago}, and {lifted}"


def _hold_paths(held: HeldKind) -> tuple[str, ...]:
    kind = quote(held.kind, safe="")
    return (f"/kinds/{kind}", f"/jobs?status=held&kind={kind}")


def stalled(facts: Facts) -> Said | None:
    """The head of the line does not move, though somebody is there to move it."""
    line, limits = facts.line, facts.thresholds
    assert facts.controls is not None
    assert line is not None
    oldest = line.oldest_able
    if facts.controls.pause or oldest is None or _nobody(facts):
        return None
    quiet_since = latest(line.ended_at, resumed_at(facts), working_since(facts))
    waited = facts.age_s(oldest.able_at)
    if waited <= limits.stalled or (quiet_since and facts.age_s(quiet_since) <= limits.quiet):
        return None
    slots = facts.signs.slots(facts.now) if facts.signs else None
    if is_full_as_usual(facts):
        return None
    longest = longest_run(facts)
    keeps = locked(facts) or f"{busy(facts, slots, longest)}{asked_to_stop(facts)}"
    return Said(
        Level.RED,
        f"Job {oldest.able_id} ({oldest.able_kind}) is due for {span(waited)} and"
        f" {nothing_ends(facts)}; {keeps}.",
        latest(oldest.able_at, quiet_since),
        {
            "oldest_due_id": oldest.able_id,
            "oldest_due_kind": oldest.able_kind,
            "oldest_due_at": oldest.able_at,
            "due": line.due,
            "last_end_at": line.ended_at,
            "running": line.running,
            "slots": slots,
            "longest_id": longest and longest.first_id,
            "longest_kind": longest and longest.kind,
            "longest_since": longest and longest.first_at,
            "oldest_transaction_s": facts.system and facts.system.oldest_transaction_s,
            **_of_lock(facts),
        },
        *way_out(facts),
    )


def _of_lock(facts: Facts) -> dict[str, Any]:
    lock, line = facts.lock, facts.line
    return {
        "asked_to_stop": sum(one.asked for one in line.kinds) if line else 0,
        "lock_waits": lock.waiting if lock else 0,
        "lock_pid": lock and lock.pid,
        "lock_application": lock and lock.application,
        "lock_role": lock and lock.role,
        "lock_since": facts.ago(lock.open_s) if lock and lock.open_s is not None else None,
    }


def is_full_as_usual(facts: Facts) -> bool:
    """Whether every thread is busy, and none for longer than usual."""
    assert facts.line is not None
    slots = facts.signs.slots(facts.now) if facts.signs else None
    return bool(slots) and facts.line.running >= (slots or 0) and _runs_as_usual(facts)


def _runs_as_usual(facts: Facts) -> bool:
    """Whether no run has taken longer than its kind is known to: a long line, but no stall.

    Where most attempts fail that says nothing: they may all have been running into their time-out.
    """
    assert facts.line is not None
    minutes, kinds = facts.hour.minutes if facts.hour else (), facts.line.kinds
    failures = total(minutes, lambda minute: minute.failures)
    attempts = total(minutes, lambda minute: minute.attempts)
    return (
        bool(kinds)
        and failures <= attempts / 2
        and all(
            facts.age_s(one.first_at) <= run_limit(facts, one, facts.thresholds.quiet)
            for one in kinds
        )
    )


def _nobody(facts: Facts) -> bool:
    return facts.signs is not None and not facts.signs.alive(facts.now)


def wedged(facts: Facts) -> Said | None:
    """Everything that runs has run for too long, and nothing ends."""
    line, hour, limits = facts.line, facts.hour, facts.thresholds
    assert line is not None
    assert hour is not None
    if not line.kinds or (line.ended_at and facts.age_s(line.ended_at) <= limits.wedged):
        return None
    if any(facts.age_s(one.last_at) <= run_limit(facts, one, limits.wedged) for one in line.kinds):
        return None
    longest = longest_run(facts)
    assert longest is not None
    known = all(hour.usual_s.get(one.kind) for one in line.kinds)
    jobs = sum(one.jobs for one in line.kinds)
    said = f"{counted(jobs, 'job')} {'runs' if jobs == 1 else 'run'} and {nothing_ends(facts)};"
    said += f" the longest, job {longest.first_id} ({longest.kind}), for"
    said += f" {span(facts.age_s(longest.first_at))}"
    said += usually(facts, longest) if known else ", and how long is usual is not known"
    said += asked_to_stop(facts)
    said += f"; {locked(facts)}" if facts.lock else ""
    return Said(
        Level.RED if known else Level.AMBER,
        f"{said}.",
        latest(line.ended_at, longest.first_at),
        {
            "running": line.running,
            "last_end_at": line.ended_at,
            "longest_id": longest.first_id,
            "longest_kind": longest.kind,
            "longest_since": longest.first_at,
            "usual_p95_s": hour.usual_s.get(longest.kind),
            **_of_lock(facts),
        },
        *way_out(facts),
    )
