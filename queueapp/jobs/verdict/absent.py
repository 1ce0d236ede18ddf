"""Rules for workers that are not well, or not there. Pure."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from queueapp.jobs.presence import SILENT_PART, Worker
from queueapp.jobs.verdict.facts import Facts, Holding
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.halted import is_work
from queueapp.jobs.verdict.rule import Said
from queueapp.jobs.verdict.since import last_heard
from queueapp.jobs.verdict.words import name_of, share_of_workers
from queueapp.jobs.why.words import because, counted, span


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
    others = len(
        {one.holder for one in signs.live(facts.now)} - {found[1].name for found in silent}
    )
    left = (holder.last_expiry - facts.now).total_seconds()
    then = f"their leases end by themselves within {span(left)}"
    if not others:
        when = f"end within {span(left)}" if left > 0 else "have ended"
        then = f"their leases {when}, and no other worker is alive to take them back"
    elif left <= 0:
        then = "their leases have ended, a worker's sweeper takes them back"
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
        _swept(others) if left <= 0 or not others else None,
    )


def _swept(others: int) -> str:
    if others:
        return "Wait some seconds for a sweeper."
    return "Start `flask work`, which takes them back; or release its jobs."


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
        return last_heard(facts, worker)
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
    worse = not alive and is_work(facts)
    if alive >= facts.expected_workers or not signs.all_known or worse:
        return None
    gone = [worker for worker in signs.workers if not worker.is_live(facts.now)]
    last_gone = max(gone, key=lambda one: one.stopped_at or one.seen_at, default=None)
    since = (last_gone.stopped_at or last_gone.seen_at) if last_gone else None
    named = ""
    if last_gone and since:
        why = because(last_gone.stopped_for) if last_gone.stopped_at else ""
        said = "stopped" if last_gone.stopped_at else "was heard of last"
        named = f"; {name_of(last_gone.holder)} {said} {span(facts.age_s(since))} ago{why}"
    drains = {one.holder for one in signs.live(facts.now) if one.told.get("drains")}
    if drains:
        named += (
            f"; {counted(len(drains), 'worker')} {'drains' if len(drains) == 1 else 'drain'}, as"
        )
        named += " somebody has asked"
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
        "Start others in their place, if that is not on purpose." if drains else None,
    )
