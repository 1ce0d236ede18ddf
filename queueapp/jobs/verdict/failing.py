"""Rules for work that goes wrong: retries and failures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote

from queueapp.jobs.status import Event
from queueapp.jobs.verdict.done import FAILING_S, since_then
from queueapp.jobs.verdict.facts import Facts, Group
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.kind_counts import KindCounts
from queueapp.jobs.verdict.minutes import Minute, about, last, lasting_since, total
from queueapp.jobs.verdict.rule import Said
from queueapp.jobs.verdict.subject import Subject, subject
from queueapp.jobs.verdict.words import percent
from queueapp.jobs.why.words import counted, moment

STORM_S = 300.0


def retry_storm(facts: Facts) -> Said | None:
    """Most of what starts has failed before."""
    assert facts.hour is not None
    limits = facts.thresholds
    minutes = last(facts.hour.minutes, facts.now, STORM_S)
    starts, retries = total(minutes, _starts), total(minutes, _retries)
    still = retries * _part_of_sick(facts, lambda one: one.retries)
    if starts < limits.least or still <= limits.retries * starts:
        return None

    def is_bad(line: Minute) -> bool:
        return _retries(line) > limits.retries * _starts(line)

    found = subject(
        facts, _sick(facts), lambda one: (one.retries, one.starts),
        share=limits.retries, noun="start",
        bad=filter(is_bad, facts.hour.minutes), within_s=STORM_S,
    )  # fmt: skip
    kind, group, done = found.kind, found.group, found.done
    still -= retries * _part_of(facts, found.over, lambda one: one.retries)
    left = starts - sum(one.starts for one in found.over)
    is_red = still > limits.retries_red * left and not done.is_mending
    return Said(
        Level.RED if is_red else Level.AMBER,
        f"{percent(retries, starts)} of {counted(starts, 'start')} in"
        f" {about(minutes, facts.now, STORM_S)} minutes are retries{found.named}{done.words}.",
        lasting_since(facts.hour.minutes, is_bad),
        {
            "starts": starts,
            "retries": retries,
            "kind": kind and kind.kind,
            **_of_group(group),
            "clears_at": done.clears_at,
        },
        _paths(facts, found),
        done.step,
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

    def is_bad(line: Minute) -> bool:
        return _failures(line) > limits.failing * _attempts(line)

    found = subject(
        facts, _sick(facts), lambda one: (one.failures, one.attempts),
        share=limits.failing, noun="attempt",
        bad=filter(is_bad, facts.hour.minutes), within_s=FAILING_S,
    )  # fmt: skip
    kind, group, done = found.kind, found.group, found.done
    still -= failures * _part_of(facts, found.over, lambda one: one.failures)
    is_mending = done.is_mending or (kind is not None and kind.is_mending(limits.least))
    deployed_at = facts.signs.deployed_at if facts.signs else None
    new = bool(group and deployed_at and group.ever_at and group.ever_at > deployed_at)
    named = found.named
    if new and deployed_at:
        named += f", new since the deploy of {moment(deployed_at)}"
    named += "" if done.is_held else since_then(kind)
    left = attempts - sum(one.attempts for one in found.over)
    is_red = still > limits.failing_red * left and not is_mending
    return Said(
        Level.RED if is_red else Level.AMBER,
        f"{percent(failures, attempts)} of {counted(attempts, 'attempt')} in"
        f" {about(minutes, facts.now, FAILING_S)} minutes failed{named}{done.words}.",
        lasting_since(facts.hour.minutes, is_bad),
        {
            "attempts": attempts,
            "failures": failures,
            "kind": kind and kind.kind,
            **_of_group(group),
            "new_since_deploy": new,
            "deployed_at": deployed_at,
            "failing_until": kind and kind.bad_at,
            "attempts_since": kind.since if kind else 0,
            "clears_at": done.clears_at,
        },
        _paths(facts, found),
        done.step,
    )


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
        f" most of {worst.kind}{since_then(worst)}{_but(facts)}."
    )


def _but(facts: Facts) -> str:
    """The kind that fails still, with too few failures to be a finding among all that ended."""
    limits, bad = facts.thresholds, [one for one in _sick(facts) if one.failures]
    bad = [one for one in bad if one.failures > limits.failing * one.attempts]
    worst = max(bad, key=lambda one: one.failures, default=None)
    if worst is None or worst.attempts < limits.least:
        return ""
    share = percent(worst.failures, worst.attempts)
    return f"; but {share} of the {counted(worst.attempts, 'attempt')} of {worst.kind} failed"


def _sick(facts: Facts) -> list[KindCounts]:
    """The kinds that do not go well again, for all that is known."""
    recent = facts.hour.recent if facts.hour else ()
    return [one for one in recent if not one.is_over(facts.thresholds.least)]


def _part_of_sick(facts: Facts, of: Callable[[KindCounts], int]) -> float:
    """How much of the failures or the retries is theirs, from 0 to 1."""
    return _part_of(facts, _sick(facts), of, without=1.0)


def _part_of(
    facts: Facts,
    kinds: Iterable[KindCounts],
    of: Callable[[KindCounts], int],
    *,
    without: float = 0.0,
) -> float:
    """How much of them is of these kinds; ``without``: where there are none of any kind."""
    every = sum(of(one) for one in facts.hour.recent) if facts.hour else 0
    return sum(of(one) for one in kinds) / every if every else without


def _of_group(group: Group | None) -> dict[str, str | None]:
    return {
        "error_class": group.error_class if group else None,
        "fingerprint": group.fingerprint if group else None,
    }


def _paths(facts: Facts, found: Subject) -> tuple[str, ...]:
    """Never to an empty list: without a job that has failed so there is the ledger still."""
    kind, group = found.kind, found.group
    if group and group.fingerprint:
        return (f"/errors/{quote(group.fingerprint, safe='')}",)
    if kind and found.done.is_held:
        return (f"/kinds/{quote(kind.kind, safe='')}",)
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
