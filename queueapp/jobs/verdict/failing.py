"""Rules for work that goes wrong: jobs that take workers down, retries, failures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote

from queueapp.jobs.status import Event
from queueapp.jobs.verdict.facts import Facts, Group, Groups, KindCounts, Suspect
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.minutes import Minute, about, last, lasting_since, total
from queueapp.jobs.verdict.rule import Said
from queueapp.jobs.verdict.statements import GROUPS, MOST_FAILURES, RECENT_S
from queueapp.jobs.verdict.words import percent
from queueapp.jobs.why.words import counted, moment, span

STORM_S = 300.0
FAILING_S = float(RECENT_S)
_UNHOLD = "Unhold it when what it needs is back."
_LOOK = "Look at these failures in the log: no job looked at waits with one, or ended so."
_DONE = "Nothing more; the log has these failures."
# Workers that have vanished with a job, and how long ago the last of them at the most.
LEAST_KILLED, KILLER_S = 2, 3600.0


def worker_killer(facts: Facts) -> Said | None:
    """A job with which one worker after the other is lost."""
    assert facts.suspects is not None
    assert facts.signs is not None
    guilty = [one for one in facts.suspects if _has_killed(facts, one)]
    if not guilty:
        return None
    first = guilty[0]
    gone = _vanished(facts, first)
    more = f"; so did {counted(len(guilty) - 1, 'more job')}" if guilty[1:] else ""
    has_failed = first.status == "failed"
    return Said(
        Level.RED,
        f"Job {first.id} ({first.kind}) was running when {counted(len(gone), 'worker')}"
        f" vanished, the last one {span(facts.age_s(first.last_at))} ago, and no error was ever"
        f" recorded{', and has ended failed' if has_failed else ''}{more}.",
        first.first_at,
        {
            "job_id": first.id,
            "kind": first.kind,
            "status": first.status,
            "times": len(gone),
            "holders": gone[:10],
            "last_at": first.last_at,
            "more_jobs": [one.id for one in guilty[1:]],
        },
        (f"/jobs/{first.id}",),
        "Find out what it does to its worker before you retry it." if has_failed else None,
    )


def _has_killed(facts: Facts, one: Suspect) -> bool:
    """Whether workers vanished with it of late; one that is still there was only slow."""
    assert facts.signs is not None
    live = {worker.holder for worker in facts.signs.live(facts.now)}
    return (
        facts.age_s(one.last_at) <= KILLER_S
        and not live.intersection(one.holders)
        and len(_vanished(facts, one)) >= LEAST_KILLED
    )


def _vanished(facts: Facts, one: Suspect) -> list[str]:
    """Its holders, but for those that said why they ended."""
    assert facts.signs is not None
    ended = {worker.holder for worker in facts.signs.workers if worker.stopped_at}
    return [name for name in dict.fromkeys(one.holders) if name not in ended]


def retry_storm(facts: Facts) -> Said | None:
    """Most of what starts has failed before."""
    assert facts.hour is not None
    limits = facts.thresholds
    minutes = last(facts.hour.minutes, facts.now, STORM_S)
    starts, retries = total(minutes, _starts), total(minutes, _retries)
    still = retries * _part_of_sick(facts, lambda one: one.retries)
    if starts < limits.least or still <= limits.retries * starts:
        return None
    kind = max(_sick(facts), key=lambda one: one.retries, default=None)
    group, is_held = _group(facts, kind.kind if kind else None), _is_held(facts, kind)
    named = f", most of {kind.kind}" if kind else ""
    named += f": {group.error_class}" if group and group.error_class else ""
    named += "; it is on hold" if is_held else ""
    return Said(
        Level.RED if still > limits.retries_red * starts and not is_held else Level.AMBER,
        f"{percent(retries, starts)} of {counted(starts, 'start')} in"
        f" {about(minutes, facts.now, STORM_S)} minutes are retries{named}.",
        lasting_since(facts.hour.minutes, lambda m: _retries(m) > limits.retries * _starts(m)),
        {"starts": starts, "retries": retries, "kind": kind and kind.kind, **_of_group(group)},
        _paths(facts, group, kind),
        _UNHOLD if is_held else None,
    )


def failing(facts: Facts) -> Said | None:
    """A large part of the attempts ends in an error."""
    assert facts.hour is not None
    limits = facts.thresholds
    minutes = last(facts.hour.minutes, facts.now, FAILING_S)
    attempts, failures = total(minutes, _attempts), total(minutes, _failures)
    still = failures * _part_of_sick(facts, lambda one: one.failures)
    if attempts < limits.least or still <= limits.failing * attempts:
        return None
    kind = max(_sick(facts), key=lambda one: one.failures, default=None)
    group, is_held = _group(facts, kind.kind if kind else None, minutes), _is_held(facts, kind)
    clears_at = None if group or is_held else _clears_at(facts, kind)
    is_mending = is_held or clears_at or (kind is not None and kind.is_mending(limits.least))
    deployed_at = facts.signs.deployed_at if facts.signs else None
    new = bool(group and deployed_at and group.ever_at and group.ever_at > deployed_at)
    named = f", most of {kind.kind}" if kind else ""
    named += f": {group.error_class}" if group and group.error_class else ""
    if new and deployed_at:
        named += f", new since the deploy of {moment(deployed_at)}"
    named += "; it is on hold" if is_held else _since_then(kind)
    named += _clears(clears_at)
    is_red = still > limits.failing_red * attempts and not is_mending
    return Said(
        Level.RED if is_red else Level.AMBER,
        f"{percent(failures, attempts)} of {counted(attempts, 'attempt')} in"
        f" {about(minutes, facts.now, FAILING_S)} minutes failed{named}.",
        lasting_since(facts.hour.minutes, lambda m: _failures(m) > limits.failing * _attempts(m)),
        {
            "attempts": attempts,
            "failures": failures,
            "kind": kind and kind.kind,
            **_of_group(group),
            "new_since_deploy": new,
            "deployed_at": deployed_at,
            "failing_until": kind and kind.bad_at,
            "attempts_since": kind.since if kind else 0,
            "clears_at": clears_at,
        },
        _paths(facts, group, kind),
        _UNHOLD if is_held else _DONE if clears_at else None if group else _LOOK,
    )


def _clears(at: datetime | None) -> str:
    if at is None:
        return ""
    return (
        "; no job of it is failed or waits for a retry any more, nothing is left to do: this clears"
        f" by itself by {moment(at)}, unless new ones fail"
    )


def _clears_at(facts: Facts, kind: KindCounts | None) -> datetime | None:
    """Until when it lasts at the most, where no job is left of it; None where one may be.

    Jobs that are to be tried again are not all looked at: a line in which the kind goes well tells.
    """
    groups, minutes = facts.groups, facts.hour.minutes if facts.hour else []
    if kind is None or groups is None or not _is_all(facts, groups):
        return None
    is_retried = bool(minutes[-1].count(Event.RETRY_SCHEDULED))
    if is_retried and kind.bad_at and kind.bad_at >= minutes[-1].at:
        return None
    limit = facts.thresholds.failing
    bad = (one.at for one in minutes if one.failures > limit * one.attempts)
    return max(bad, default=facts.now) + timedelta(seconds=FAILING_S)


def _is_all(facts: Facts, groups: Groups) -> bool:
    """Whether the groups are all that have failed of late."""
    recent = last(facts.hour.minutes, facts.now, FAILING_S) if facts.hour else []
    since = recent[0].since if recent else facts.ago(FAILING_S)
    is_back = groups.failed < MOST_FAILURES or facts.age_s(groups.back_to) > facts.age_s(since)
    is_whole = len(groups.groups) < GROUPS or not groups.groups[-1].lately
    return is_back and is_whole and groups.retrying < MOST_FAILURES


def is_over(facts: Facts) -> str | None:
    """What is to be said of failures that were too many, and are no more."""
    if facts.hour is None or failing(facts) is not None:
        return None
    limits = facts.thresholds
    minutes = last(facts.hour.minutes, facts.now, FAILING_S)
    attempts, failures = total(minutes, _attempts), total(minutes, _failures)
    well = [one for one in facts.hour.recent if one.bad_at and one.is_over(limits.least)]
    worst = max(well, key=lambda one: one.failures, default=None)
    if worst is None or attempts < limits.least or failures <= limits.failing * attempts:
        return None
    return (
        f"Failing is over: {percent(failures, attempts)} of {counted(attempts, 'attempt')} in"
        f" {about(minutes, facts.now, FAILING_S)} minutes failed,"
        f" most of {worst.kind}{_since_then(worst)}."
    )


def _since_then(kind: KindCounts | None) -> str:
    """How the newest attempts went, where those before them failed."""
    if kind is None or kind.bad_at is None or not kind.since:
        return ""
    failed = f"{kind.since_failed:,}" if kind.since_failed else "none"
    return f"; of its {counted(kind.since, 'attempt')} since {moment(kind.bad_at)} {failed} failed"


def _sick(facts: Facts) -> list[KindCounts]:
    """The kinds that do not go well again, for all that is known."""
    recent = facts.hour.recent if facts.hour else ()
    return [one for one in recent if not one.is_over(facts.thresholds.least)]


def _is_held(facts: Facts, kind: KindCounts | None) -> bool:
    """Whether somebody has seen to it that nothing of the kind starts."""
    held = facts.controls.held_kinds if facts.controls else ()
    return kind is not None and kind.kind in held


def _part_of_sick(facts: Facts, of: Callable[[KindCounts], int]) -> float:
    """How much of the failures or the retries is theirs, from 0 to 1."""
    every = sum(of(one) for one in facts.hour.recent) if facts.hour else 0
    return sum(of(one) for one in _sick(facts)) / every if every else 1.0


def _group(facts: Facts, kind: str | None, within: Sequence[Minute] = ()) -> Group | None:
    """The first group that has hit the kind; of all without one. What is not known is None.

    ``within``: one that has failed since the first of these, or has a job to be tried again.
    """
    groups = facts.groups.groups if facts.groups else ()
    return next(
        (
            one
            for one in groups
            if (kind is None or kind in one.hit)
            and (not within or one.retrying or _has_failed_since(one, within[0].since))
        ),
        None,
    )


def _has_failed_since(group: Group, since: datetime) -> bool:
    return group.last_at is not None and group.last_at >= since


def _of_group(group: Group | None) -> dict[str, str | None]:
    return {
        "error_class": group.error_class if group else None,
        "fingerprint": group.fingerprint if group else None,
    }


def _paths(facts: Facts, group: Group | None, kind: KindCounts | None) -> tuple[str, ...]:
    """Never to an empty list: without a job that has failed so there is the ledger still."""
    if group and group.fingerprint:
        return (f"/errors/{quote(group.fingerprint, safe='')}",)
    minutes = last(facts.hour.minutes, facts.now, FAILING_S) if facts.hour else []
    counts = {e: sum(m.count(e) for m in minutes) for e in (Event.FAILED, Event.RETRY_SCHEDULED)}
    event = max(counts, key=lambda each: counts[each])
    # Some of the kind's failures are of that event, if together they are more than there are.
    is_of_kind = kind and kind.failures + counts[event] > sum(counts.values())
    named = f"&kind={quote(kind.kind, safe='')}" if kind and is_of_kind else ""
    return (f"/events?event={event}{named}",)


def _starts(minute: Minute) -> int:
    return minute.starts


def _retries(minute: Minute) -> int:
    return minute.retries


def _attempts(minute: Minute) -> int:
    return minute.attempts


def _failures(minute: Minute) -> int:
    return minute.failures
