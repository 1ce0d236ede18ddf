"""Rules for work that moves too slowly, or not for everybody. Pure."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

from queueapp.jobs.verdict.facts import Facts
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.halted import no_workers, stalled
from queueapp.jobs.verdict.minutes import (
    LATE_S,
    Minute,
    about,
    last,
    lasting_since,
    p95_s,
    rate,
    total,
    waits_of,
)
from queueapp.jobs.verdict.rule import Said
from queueapp.jobs.verdict.since import grown_at, has_just_resumed
from queueapp.jobs.verdict.words import due, the_oldest
from queueapp.jobs.why.words import counted, moment, span

BEHIND_S = 600.0


def no_worker_for_kind(facts: Facts) -> Said | None:
    """Workers live, and nobody of them runs what is due first, or what they hand back."""
    signs, line = facts.signs, facts.line
    assert signs is not None
    assert line is not None
    assert facts.controls is not None
    able = {kind for one in signs.live(facts.now) if one.slots for kind in one.kinds}
    if not signs.alive(facts.now) or not signs.all_known or facts.controls.pause:
        return None
    known = able.union(facts.controls.held_kinds)
    waiting = [(one.since, one.id, one.kind, one.handbacks) for one in facts.handed_back]
    waiting += [(one.at, one.id, one.kind, 0) for one in line.heads if one.kind not in known]
    at, job_id, kind, handbacks = min(waiting, default=(None, 0, "", 0))
    if at is None or facts.age_s(at) <= facts.thresholds.starving:
        return None
    waits = (
        f"was handed back {counted(handbacks, 'time')} in {span(facts.age_s(at))}"
        if handbacks
        else f"is due for {span(facts.age_s(at))}"
    )
    return Said(
        Level.AMBER,
        f"Job {job_id} ({kind}) {waits}, and no live worker runs its kind.",
        at,
        {
            "job_id": job_id,
            "kind": kind,
            "oldest_due_at": at,
            "handbacks": handbacks,
            "live_workers": signs.alive(facts.now),
        },
        (f"/jobs/{job_id}",),
    )


def starving(facts: Facts) -> Said | None:
    """The line moves, but not for a low priority."""
    line, limits = facts.line, facts.thresholds
    assert facts.controls is not None
    assert line is not None
    if facts.controls.pause or line.ended_at is None or facts.age_s(line.ended_at) > limits.quiet:
        return None
    if has_just_resumed(facts, limits.starving):
        return None
    waiting = [one for one in line.heads if facts.age_s(one.able_at) > limits.starving]
    for one in sorted(waiting, key=lambda head: head.able_at or facts.now):
        higher = _flowing_above(facts, one.priority)
        if higher is not None:
            return Said(
                Level.AMBER,
                f"Priority {one.priority} waits: job {one.able_id} ({one.able_kind}) is due for"
                f" {span(facts.age_s(one.able_at))}, while priority {higher} goes on"
                f"{_begun(facts)}.",
                one.able_at,
                {
                    "priority": one.priority,
                    "oldest_due_id": one.able_id,
                    "oldest_due_kind": one.able_kind,
                    "oldest_due_at": one.able_at,
                    "due": one.jobs,
                    "higher_priority": higher,
                },
                (f"/jobs?status=queued&priority={one.priority}",),
                _WAIT_OR_RAISE if _begun(facts) else None,
            )
    return None


def _flowing_above(facts: Facts, priority: int) -> int | None:
    """A higher priority whose jobs run, or wait for no long time."""
    line = facts.line
    assert line is not None
    if line.highest is not None and line.highest > priority:
        return line.highest
    flowing = (
        one.priority
        for one in line.heads
        if one.priority > priority
        and one.able_at is not None
        and facts.age_s(one.able_at) <= facts.thresholds.starving
    )
    return max(flowing, default=None)


def falling_behind(facts: Facts) -> Said | None:
    """More comes than ends, for ten minutes, and the wait grows."""
    line, hour = facts.line, facts.hour
    assert facts.controls is not None
    assert line is not None
    assert hour is not None
    minutes = last(hour.minutes, facts.now, BEHIND_S)
    oldest = line.oldest_able
    if facts.controls.pause or oldest is None or not _is_whole(facts, minutes):
        return None
    # While nothing moves at all more is to be said of that, and a pace says nothing.
    if has_just_resumed(facts, BEHIND_S) or stalled(facts) or no_workers(facts):
        return None
    newer = last(minutes, facts.now, BEHIND_S / 2)
    older = minutes[: len(minutes) - len(newer)]
    waited = facts.age_s(oldest.able_at)
    before = p95_s(waits_of(older)) or 0.0
    if waited <= max(facts.thresholds.stalled, before) or not all(map(_grows, (older, newer))):
        return None
    arrived, ended = total(minutes, _arrived), total(minutes, _ended)
    pace = rate(minutes, _ended)
    drain_s = 60 * line.due / pace if pace and not line.is_least else None
    waiting = f"{due(line.due, is_least=line.is_least)}, {the_oldest(is_cut=line.is_cut)}"
    kind = max(hour.recent, key=lambda one: one.arrived, default=None)
    named = f", most of {kind.kind}," if kind else ""
    alone = f", without new jobs in {span(drain_s)}" if drain_s and drain_s >= 60 else ""
    is_held = kind is not None and kind.kind in facts.controls.held_kinds
    held = f" {kind.kind} is on hold by now." if kind and is_held else ""
    return Said(
        Level.AMBER,
        f"In {about(minutes, facts.now, BEHIND_S)} minutes {counted(arrived, 'job')} came{named}"
        f" and {ended:,} ended; {waiting} for {span(waited)}, longer than before."
        f" At these rates the line never empties{alone}.{held}{_new_hands(facts)}",
        lasting_since(hour.minutes, lambda minute: minute.arrived > minute.ended),
        {
            "arrived": arrived,
            "kind": kind and kind.kind,
            "ended": ended,
            "due": line.due,
            "oldest_due_at": oldest.able_at,
            "wait_p95_before_s": before,
            "drain_s": drain_s,
        },
        (_due_of(facts, None if is_held or kind is None else kind.kind),),
        _step(
            facts, is_held=is_held, kind=kind.kind if kind and 2 * kind.arrived > arrived else None
        ),
    )


_WAIT_OR_RAISE = "Wait for what the new worker does; or raise its priority."


def _step(facts: Facts, *, is_held: bool, kind: str | None) -> str | None:
    """What is left to do; None: what the rule says. ``kind``: that of most that came."""
    if grown_at(facts, BEHIND_S / 2 + LATE_S) is not None:
        return "Wait for that; or hold or cancel what came."
    if is_held:
        return "Wait: the others are worked off, and this clears by itself; or start more workers."
    if kind is None:
        return None
    return (
        f"Start more workers; or find out who creates so many of {kind}, and hold that kind or"
        " cancel what came."
    )


def _begun(facts: Facts) -> str:
    began = grown_at(facts, BEHIND_S / 2 + LATE_S)
    return f"; a worker began {span(facts.age_s(began))} ago" if began else ""


def _new_hands(facts: Facts) -> str:
    """That somebody has started a worker, and when it shows whether that is enough."""
    began = grown_at(facts, BEHIND_S / 2 + LATE_S)
    if began is None:
        return ""
    shows = moment(began + timedelta(seconds=BEHIND_S / 2 + LATE_S))
    return f" A worker began {span(facts.age_s(began))} ago: whether it is enough shows by {shows}."


def _due_of(facts: Facts, kind: str | None) -> str:
    """The due jobs: of the kind, where some of them are for certain."""
    heads = facts.line.heads if facts.line else ()
    is_due = kind is not None and any(kind in (one.kind, one.able_kind) for one in heads)
    return f"/jobs?status=due&kind={quote(kind or '', safe='')}" if is_due else "/jobs?status=due"


def _is_whole(facts: Facts, minutes: list[Minute]) -> bool:
    """Whether the lines reach over the time that the rule is about."""
    return bool(minutes) and facts.age_s(minutes[0].since) >= BEHIND_S * 0.9


def _grows(minutes: list[Minute]) -> bool:
    return total(minutes, _arrived) > total(minutes, _ended)


def _arrived(minute: Minute) -> int:
    return minute.arrived


def _ended(minute: Minute) -> int:
    return minute.ended
