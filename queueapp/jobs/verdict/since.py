"""From when on a rule counts: what waited for a reason may wait a moment more. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from queueapp.jobs.control import Switch
from queueapp.jobs.presence import Worker
from queueapp.jobs.status import Event
from queueapp.jobs.verdict.facts import Facts


def lifted(facts: Facts) -> tuple[str, Switch] | None:
    """The last lift of a pause or a hold, with its scope."""
    assert facts.controls is not None
    lifts = (Event.QUEUE_RESUMED, Event.KIND_UNHELD)
    found = [one for one in facts.controls.latest.items() if one[1].event in lifts]
    return max(found, key=lambda one: one[1].at, default=None)


def has_just_resumed(facts: Facts, within_s: float) -> bool:
    """Whether a pause or a hold was lifted so lately that what waited behind it is still there.

    One that was short leaves little behind: it is no excuse for longer than it lasted, or a minute.
    """
    _, lift = lifted(facts) or ("", None)
    if lift is None:
        return False
    lasted_s = (lift.at - lift.began_at).total_seconds() if lift.began_at else within_s
    return facts.age_s(lift.at) <= min(within_s, max(lasted_s, _LEAST_S))


def resumed_at(facts: Facts) -> datetime | None:
    """When that was."""
    lift = lifted(facts)
    return lift[1].at if lift else None


def working_since(facts: Facts) -> datetime | None:
    """Since when there is somebody who could work."""
    if facts.signs is None:
        return None
    return facts.signs.working_since(facts.now, facts.thresholds.stalled)


def latest(*instants: datetime | None) -> datetime | None:
    """The latest of those that are known."""
    return max((at for at in instants if at), default=None)


def last_heard(facts: Facts, worker: Worker) -> datetime:
    """When a worker was heard of last: by its sign, its end, or the renewal of its leases."""
    if worker.stopped_at:
        return worker.stopped_at
    line, heard = facts.line, [worker.seen_at]
    if line and worker.lease_s and not worker.is_elsewhere:
        ends = [one.renewed_to for one in line.holders if one.name == worker.holder]
        ends.append(line.lapsed.get(worker.holder))
        heard += [at - timedelta(seconds=worker.lease_s) for at in ends if at]
    return min(max(heard), facts.now)


# What waits behind the shortest pause has so long to start.
_LEAST_S = 60.0

# One that ended so long before another began was replaced by it.
_REPLACED_S = 60.0


def grown_at(facts: Facts, within_s: float) -> datetime | None:
    """When the newest worker began, if that is so short ago and there are more of them since."""
    if facts.signs is None:
        return None
    able = [one for one in facts.signs.live(facts.now) if one.slots and one.first_seen_at]
    began = latest(*(one.first_seen_at for one in able))
    if began is None or facts.age_s(began) > within_s:
        return None
    before = [
        one
        for one in facts.signs.workers
        if one.first_seen_at and one.first_seen_at < began
        and one.ended_by(facts.now) >= began - timedelta(seconds=_REPLACED_S)
    ]  # fmt: skip
    return began if len(able) > len(before) else None
