"""Rules for work that moves too slowly, or not for everybody. Pure."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from queueapp.jobs.queries.bounds import COUNT_LIMIT
from queueapp.jobs.verdict.facts import Facts, Holding
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.minutes import (
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
from queueapp.jobs.verdict.since import resumed_at
from queueapp.jobs.verdict.words import due, name_of, share_of_workers
from queueapp.jobs.why.facts import Worker
from queueapp.jobs.why.words import because, counted, span

BEHIND_S = 600.0
# A holder renews after a third of its lease; after two thirds without it is silent.
SILENT_PART = 2 / 3


def no_worker_for_kind(facts: Facts) -> Said | None:
    """Workers live, and nobody of them runs what is due first."""
    signs, line = facts.signs, facts.line
    assert signs is not None
    assert line is not None
    assert facts.controls is not None
    able = {kind for one in signs.live(facts.now) if one.slots for kind in one.kinds}
    if not able or not signs.all_known or facts.controls.pause:
        return None
    known = able.union(facts.controls.held_kinds)
    lonely = [one for one in line.heads if one.kind not in known]
    oldest = min(lonely, key=lambda one: one.at, default=None)
    if oldest is None or facts.age_s(oldest.at) <= facts.thresholds.starving:
        return None
    return Said(
        Level.AMBER,
        f"Job {oldest.id} ({oldest.kind}) is due for {span(facts.age_s(oldest.at))}, and no live"
        " worker runs its kind.",
        oldest.at,
        {
            "job_id": oldest.id,
            "kind": oldest.kind,
            "oldest_due_at": oldest.at,
            "live_workers": signs.alive(facts.now),
        },
        (f"/jobs/{oldest.id}",),
    )


def starving(facts: Facts) -> Said | None:
    """The line moves, but not for a low priority."""
    line, limits = facts.line, facts.thresholds
    assert facts.controls is not None
    assert line is not None
    if facts.controls.pause or line.ended_at is None or facts.age_s(line.ended_at) > limits.quiet:
        return None
    if _has_just_resumed(facts, limits.starving):
        return None
    waiting = [one for one in line.heads if facts.age_s(one.able_at) > limits.starving]
    for one in sorted(waiting, key=lambda head: head.able_at or facts.now):
        higher = _flowing_above(facts, one.priority)
        if higher is not None:
            return Said(
                Level.AMBER,
                f"Priority {one.priority} waits: job {one.able_id} ({one.able_kind}) is due for"
                f" {span(facts.age_s(one.able_at))}, while priority {higher} goes on.",
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
    if _has_just_resumed(facts, BEHIND_S):
        return None
    newer = last(minutes, facts.now, BEHIND_S / 2)
    older = minutes[: len(minutes) - len(newer)]
    waited = facts.age_s(oldest.able_at)
    before = p95_s(waits_of(older)) or 0.0
    if waited <= max(facts.thresholds.stalled, before) or not all(map(_grows, (older, newer))):
        return None
    arrived, ended = total(minutes, _arrived), total(minutes, _ended)
    pace = rate(minutes, _ended)
    drain_s = 60 * line.due / pace if pace and line.due <= COUNT_LIMIT else None
    kind = max(hour.recent, key=lambda one: one.arrived, default=None)
    named = f", most of {kind.kind}," if kind else ""
    alone = f", without new jobs in {span(drain_s)}" if drain_s and drain_s >= 60 else ""
    return Said(
        Level.AMBER,
        f"In {about(minutes, facts.now, BEHIND_S)} minutes {counted(arrived, 'job')} came{named} and"
        f" {ended:,} ended;"
        f" {due(line.due)}, the oldest for {span(waited)}, longer than before. At"
        f" these rates the line never empties{alone}.",
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
        (_due_of(facts, kind.kind if kind else None),),
    )


def _due_of(facts: Facts, kind: str | None) -> str:
    """The due jobs: of the kind, where some of them are for certain."""
    heads = facts.line.heads if facts.line else ()
    is_due = kind is not None and any(kind in (one.kind, one.able_kind) for one in heads)
    return f"/jobs?status=due&kind={quote(kind or '', safe='')}" if is_due else "/jobs?status=due"


def _has_just_resumed(facts: Facts, within_s: float) -> bool:
    """Whether a pause or a hold was lifted so lately that what waited behind it is still there."""
    resumed = resumed_at(facts)
    return resumed is not None and facts.age_s(resumed) <= within_s


def _is_whole(facts: Facts, minutes: list[Minute]) -> bool:
    """Whether the lines reach over the time that the rule is about."""
    return bool(minutes) and facts.age_s(minutes[0].since) >= BEHIND_S * 0.9


def _grows(minutes: list[Minute]) -> bool:
    return total(minutes, _arrived) > total(minutes, _ended)


def _arrived(minute: Minute) -> int:
    return minute.arrived


def _ended(minute: Minute) -> int:
    return minute.ended


def stale_worker(facts: Facts) -> Said | None:
    """A worker that holds jobs has fallen silent."""
    signs, line = facts.signs, facts.line
    assert signs is not None
    assert line is not None
    latest = {worker.holder: worker for worker in sorted(signs.workers, key=lambda w: w.seen_at)}
    silent = [
        (since, one, latest[one.name])
        for one in line.holders
        if one.name in latest and (since := _silent_since(facts, one, latest[one.name]))
    ]
    if not silent:
        return None
    since, holder, worker = min(silent, key=lambda found: found[0])
    left = (holder.last_expiry - facts.now).total_seconds()
    then = f"their leases end by themselves within {span(left)}"
    if left <= 0:
        then = "their leases have ended, a sweeper takes them back"
    others = len(
        {one.holder for one in signs.live(facts.now)} - {found[1].name for found in silent}
    )
    more = f" {counted(len(silent) - 1, 'more worker')} silent as well." if silent[1:] else ""
    return Said(
        Level.AMBER,
        f"Worker {name_of(holder.name)} {_end(facts, worker, since)} and holds"
        f" {counted(holder.jobs, 'job')}; {then}.{more}",
        since,
        {
            "holder": holder.name,
            "jobs": holder.jobs,
            "renewed_at": since,
            "first_lease_ends_at": holder.first_expiry,
            "last_lease_ends_at": holder.last_expiry,
            "silent_workers": len(silent),
            "other_workers": others,
        },
        (f"/workers/{quote(holder.name, safe='')}", "/jobs?status=running"),
    )


def _end(facts: Facts, worker: Worker, since: datetime) -> str:
    ago = span(facts.age_s(since))
    if worker.stopped_at:
        return f"stopped{because(worker.stopped_for)} {ago} ago"
    if facts.signs and facts.signs.is_cut_off(worker):
        return f"is unconnected, it was seen {ago} ago"
    return f"has been silent for {ago}"


def _silent_since(facts: Facts, holder: Holding, worker: Worker) -> datetime | None:
    """When it last renewed a lease, if that is too long ago; None while it is well or unknown."""
    if worker.stopped_at:
        return worker.stopped_at
    if facts.signs and worker.is_live(facts.now) and facts.signs.is_cut_off(worker):
        return worker.seen_at
    if worker.is_elsewhere or not worker.lease_s or holder.renewed_to is None:
        return None
    # Its latest lease tells: all are renewed at once.
    silent_s = worker.lease_s - (holder.renewed_to - facts.now).total_seconds()
    return facts.ago(silent_s) if silent_s > worker.lease_s * SILENT_PART else None


def few_workers(facts: Facts) -> Said | None:
    """Fewer workers live than there should be."""
    signs = facts.signs
    assert signs is not None
    alive = signs.alive(facts.now)
    # Nobody at all, and work to do, is another rule's.
    worse = not alive and facts.line is not None and (facts.line.due or facts.line.overdue)
    if alive >= facts.expected_workers or not signs.all_known or worse:
        return None
    gone = [worker for worker in signs.workers if not worker.is_live(facts.now)]
    last_gone = max(gone, key=lambda one: one.stopped_at or one.seen_at, default=None)
    since = (last_gone.stopped_at or last_gone.seen_at) if last_gone else None
    named = ""
    if last_gone and since:
        named = f"; {name_of(last_gone.holder)} was heard of last {span(facts.age_s(since))} ago"
    return Said(
        Level.AMBER,
        f"{share_of_workers(alive, facts.expected_workers)}{named}.",
        since,
        {
            "live_workers": alive,
            "expected_workers": facts.expected_workers,
            "last_worker": last_gone and last_gone.holder,
        },
        ("/workers", "/events?event=worker_seen"),
    )
