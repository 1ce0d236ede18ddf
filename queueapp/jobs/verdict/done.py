"""What somebody has done already about work that goes wrong, and what is left to do. Pure.

A sentence that asks for what was just done is worse than none: did it help, or was it lost?
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from queueapp.jobs import minute_stats
from queueapp.jobs.control import Switch
from queueapp.jobs.status import Event
from queueapp.jobs.verdict.facts import Facts, Group, Groups
from queueapp.jobs.verdict.kind_counts import KindCounts
from queueapp.jobs.verdict.minutes import Minute, last
from queueapp.jobs.verdict.statements import GROUPS, MOST_FAILURES, RECENT_S
from queueapp.jobs.why.words import counted, moment, span

FAILING_S = float(RECENT_S)
# A line that ends so long after something was done may still count what failed before that.
LINE_S = 90.0


@dataclass(frozen=True)
class Done:
    """What was done. ``words``: what stands behind the sentence; ``step``: None: the rule's own.

    ``clears_at``: when it ends by itself at the latest, where no job of it is left.
    """

    words: str = ""
    step: str | None = None
    clears_at: datetime | None = None
    is_held: bool = False
    is_mending: bool = False


def what_was_done(
    facts: Facts,
    kind: KindCounts | None,
    group: Group | None,
    *,
    bad: Iterable[Minute],
    within_s: float,
) -> Done:
    """What was done about the kind that is worst, and its first group.

    ``bad``: the lines that the rule is about; they count for ``within_s``.
    """
    if kind and facts.controls and kind.kind in facts.controls.held_kinds:
        is_left = group is not None or facts.groups is None or facts.groups.is_cut
        step = _UNHOLD_LATER if is_left else _UNHOLD
        return Done("; it is on hold", step, is_held=True, is_mending=True)
    lift = _lift(facts, kind, within_s)
    if lift:
        has_run = _first_since(kind, lift) is not None
        told = "" if has_run else ", and no attempt of it is counted since"
        step = _resumed(facts, _AGAIN if has_run else _NONE_YET)
        return Done(f"{_lifted(facts, lift)}{told}", step, is_mending=True)
    if group:
        return _of_group(facts, group)
    if facts.groups is None:
        return Done()
    clears_at = _clears_at(facts, kind, bad, within_s)
    if clears_at is None:
        return Done(step=_LOOK)
    name = kind.kind if kind else "it"
    return Done(
        f"; no job of {name} is failed or waits for a retry any more, nothing is left to do for it:"
        f" this clears by itself by {moment(clears_at)}, unless new ones fail",
        "Nothing more; the log has these failures.",
        clears_at,
        is_mending=True,
    )


_UNHOLD_LATER = "Unhold it when what it needs is back."
_UNHOLD = "Unhold it: no job of it is failed or waits for a retry any more."
_RESUME = "Resume the queue first: nothing of it starts before. Then w"
_LOOK = "Look at these failures in the log: no job looked at waits with one, or ended so."
_AGAIN = "Wait two minutes for what its attempts come to; if they fail, hold it again."
_NONE_YET = "Wait for its first attempts, and two minutes more; if they fail, hold it again."
_CANARY = "Wait for what those come to; then retry or cancel the others."
_RETRIED = (
    "Wait for what they come to: it ends by itself once they go well, and names them if they fail."
)


def _resumed(facts: Facts, step: str) -> str:
    """A step that waits for attempts, which a pause keeps from starting."""
    is_paused = facts.controls is not None and facts.controls.pause is not None
    return f"{_RESUME}{step[1:]}" if is_paused else step


def _lift(facts: Facts, kind: KindCounts | None, within_s: float) -> Switch | None:
    """The hold that was lifted so lately that no line tells yet that the kind fails again.

    Attempts that wait for a thread tell nothing: the time counts from the first ones that ended.
    """
    switch = facts.controls.latest.get(f"kind:{kind.kind}") if kind and facts.controls else None
    if kind is None or switch is None or switch.event is not Event.KIND_UNHELD:
        return None
    if facts.age_s(switch.at) > within_s + LINE_S:
        return None
    first_at = _first_since(kind, switch)
    if first_at is None or kind.bad_at is None:
        return switch
    return None if kind.bad_at > first_at + timedelta(seconds=LINE_S) else switch


def _first_since(kind: KindCounts | None, lift: Switch) -> datetime | None:
    """From when on attempts of it have ended since the hold was lifted: where their line began."""
    first = min((at for at in kind.ended_in if at > lift.at), default=None) if kind else None
    return first and max(lift.at, first - timedelta(seconds=minute_stats.EVERY_S))


def _lifted(facts: Facts, lift: Switch) -> str:
    spread = f", its jobs come back within {span(lift.spread_s)}" if lift.spread_s else ""
    return f"; its hold was lifted by {lift.actor} {span(facts.age_s(lift.at))} ago{spread}"


def _of_group(facts: Facts, group: Group) -> Done:
    """Of a cause all of whose jobs were retried nothing can be done before they have run."""
    if not group.anew:
        return Done()
    is_cut = facts.groups is not None and facts.groups.is_cut
    anew, one = counted(group.anew, "job"), group.anew == 1 and not is_cut
    # Of a cut line there may be any number more.
    anew, have = f"at least {anew}" if is_cut else anew, "has" if one else "have"
    if group.failed or group.anew < group.retrying:
        some = f"; {anew} of it {have} not run since somebody retried {'it' if one else 'them'}"
        return Done(some, _resumed(facts, _CANARY))
    all_of = "" if is_cut else "all of "
    words = f"; {all_of}its jobs were retried, {anew} {have} not run since"
    return Done(words, _resumed(facts, _RETRIED), is_mending=True)


def _clears_at(
    facts: Facts, kind: KindCounts | None, bad: Iterable[Minute], within_s: float
) -> datetime | None:
    """Until when it lasts at the most, where no job is left of it; None where one may be.

    Where not all that wait were looked at, a line in which the kind goes well tells.
    """
    groups, minutes = facts.groups, facts.hour.minutes if facts.hour else []
    if kind is None or groups is None or not minutes or not _is_all(facts, groups):
        return None
    newest = minutes[-1]
    is_bad = bool(kind.bad_at and kind.bad_at >= newest.at)
    if groups.is_cut and is_bad and newest.count(Event.RETRY_SCHEDULED):
        return None
    # What has failed since the newest line stands in the one that is to come.
    ended = [line.at for line in bad]
    ended += [newest.at + timedelta(seconds=LINE_S)] if is_bad else []
    return max(ended, default=facts.now) + timedelta(seconds=within_s)


def _is_all(facts: Facts, groups: Groups) -> bool:
    """Whether the groups are all that have failed of late."""
    is_back = groups.failed < MOST_FAILURES or facts.age_s(groups.back_to) > facts.age_s(
        _counts_since(facts)
    )
    is_whole = len(groups.groups) < GROUPS or not groups.groups[-1].lately
    return is_back and is_whole and groups.retrying < MOST_FAILURES


def since_then(kind: KindCounts | None) -> str:
    """How the newest attempts went, where those before them failed."""
    if kind is None or kind.bad_at is None or not kind.since:
        return ""
    failed = f"{kind.since_failed:,}" if kind.since_failed else "none"
    return f"; of its {counted(kind.since, 'attempt')} since {moment(kind.bad_at)} {failed} failed"


def first_group(facts: Facts, kind: str | None) -> Group | None:
    """The first group that has hit the kind; of all without one. What is not known is None.

    It has a failure of the time that the last ten minutes' lines are about, or a job to be tried
    again.
    """
    since = _counts_since(facts)
    groups = facts.groups.groups if facts.groups else ()
    return next(
        (
            one
            for one in groups
            if (kind is None or kind in one.hit)
            and (one.retrying or (one.last_at is not None and one.last_at >= since))
        ),
        None,
    )


def _counts_since(facts: Facts) -> datetime:
    """From when on the lines of the last ten minutes count."""
    recent = last(facts.hour.minutes, facts.now, FAILING_S) if facts.hour else []
    return recent[0].since if recent else facts.ago(FAILING_S)
