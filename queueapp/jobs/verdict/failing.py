"""Rules for work that goes wrong: jobs that take workers down, retries, failures. Pure."""

from __future__ import annotations

from urllib.parse import quote

from queueapp.jobs.verdict.facts import Facts, Group, Suspect
from queueapp.jobs.verdict.findings import Level
from queueapp.jobs.verdict.minutes import Minute, last, lasting_since, total
from queueapp.jobs.verdict.rule import Said
from queueapp.jobs.verdict.words import percent
from queueapp.jobs.why.words import counted, moment, span

STORM_S = 300.0
FAILING_S = 600.0
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
    if starts < limits.least or retries <= limits.retries * starts:
        return None
    kind = max(facts.hour.recent, key=lambda one: one.retries, default=None)
    group = _group(facts, kind.kind if kind else None, retrying=True)
    named = f", most of {kind.kind}" if kind else ""
    named += f": {group.error_class}" if group and group.error_class else ""
    return Said(
        Level.RED if retries > limits.retries_red * starts else Level.AMBER,
        f"{percent(retries, starts)} of {counted(starts, 'start')} in {STORM_S / 60:.0f} minutes"
        f" are retries{named}.",
        lasting_since(facts.hour.minutes, lambda m: _retries(m) > limits.retries * _starts(m)),
        {"starts": starts, "retries": retries, "kind": kind and kind.kind, **_of_group(group)},
        _paths(group, "retrying", kind.kind if kind else None),
    )


def failing(facts: Facts) -> Said | None:
    """A large part of the attempts ends in an error."""
    assert facts.hour is not None
    limits = facts.thresholds
    minutes = last(facts.hour.minutes, facts.now, FAILING_S)
    attempts, failures = total(minutes, _attempts), total(minutes, _failures)
    if attempts < limits.least or failures <= limits.failing * attempts:
        return None
    kind = max(facts.hour.recent, key=lambda one: one.failures, default=None)
    group = _group(facts, kind.kind if kind else None, retrying=False)
    deployed_at = facts.signs.deployed_at if facts.signs else None
    new = bool(group and deployed_at and group.ever_at and group.ever_at > deployed_at)
    named = f", most of {kind.kind}" if kind else ""
    named += f": {group.error_class}" if group and group.error_class else ""
    if new and deployed_at:
        named += f", new since the deploy of {moment(deployed_at)}"
    return Said(
        Level.RED if failures > limits.failing_red * attempts else Level.AMBER,
        f"{percent(failures, attempts)} of {counted(attempts, 'attempt')} in {FAILING_S / 60:.0f}"
        f" minutes failed{named}.",
        lasting_since(facts.hour.minutes, lambda m: _failures(m) > limits.failing * _attempts(m)),
        {
            "attempts": attempts,
            "failures": failures,
            "kind": kind and kind.kind,
            **_of_group(group),
            "new_since_deploy": new,
            "deployed_at": deployed_at,
        },
        _paths(group, "failed", kind.kind if kind else None),
    )


def _group(facts: Facts, kind: str | None, *, retrying: bool) -> Group | None:
    """The largest group that has hit the kind; of all without one. What is not known is None."""
    groups = facts.groups.groups if facts.groups else ()
    mine = [one for one in groups if kind is None or kind in one.hit]
    if retrying:
        return max(mine, key=lambda one: one.retrying, default=None)
    return mine[0] if mine else None


def _of_group(group: Group | None) -> dict[str, str | None]:
    return {
        "error_class": group.error_class if group else None,
        "fingerprint": group.fingerprint if group else None,
    }


def _paths(group: Group | None, status: str, kind: str | None) -> tuple[str, ...]:
    of_kind = f"/jobs?status={status}" + (f"&kind={quote(kind, safe='')}" if kind else "")
    if group is None or not group.fingerprint:
        return (of_kind,)
    fingerprint = quote(group.fingerprint, safe="")
    listed = f"/jobs?status=failed&fingerprint={fingerprint}"
    return (f"/errors/{fingerprint}", listed if group.failed else of_kind)


def _starts(minute: Minute) -> int:
    return minute.starts


def _retries(minute: Minute) -> int:
    return minute.retries


def _attempts(minute: Minute) -> int:
    return minute.attempts


def _failures(minute: Minute) -> int:
    return minute.failures
