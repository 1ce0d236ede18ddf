"""Which kind a sentence about what goes wrong speaks of. Pure.

The worst one, as long as something is left to do about it; then it would hide what fails besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from queueapp.jobs.verdict.done import Done, first_group, what_was_done
from queueapp.jobs.verdict.facts import Facts, Group
from queueapp.jobs.verdict.kind_counts import KindCounts
from queueapp.jobs.verdict.minutes import Minute
from queueapp.jobs.verdict.words import percent
from queueapp.jobs.why.words import counted

Part = Callable[[KindCounts], tuple[int, int]]


@dataclass(frozen=True)
class Subject:
    """The kind, its first group, and what was done about it.

    ``over``: worse ones for which nothing is left to do. ``named``: all of that in words.
    """

    kind: KindCounts | None
    group: Group | None
    done: Done
    over: tuple[KindCounts, ...] = ()
    named: str = ""


def subject(
    facts: Facts,
    sick: Iterable[KindCounts],
    part: Part,
    *,
    share: float,
    noun: str,
    bad: Iterable[Minute],
    within_s: float,
) -> Subject:
    """Find it among the ``sick``.

    ``part``: what counts of a kind, and of how many; a further one is named from ``share`` and
    ``least`` on. ``noun``: what these are. ``bad``, ``within_s``: as of ``what_was_done``.
    """
    lines = list(bad)
    over: list[KindCounts] = []
    first = None
    for kind in sorted(sick, key=lambda one: -part(one)[0]):
        bad_of, of = part(kind)
        if first and (of < facts.thresholds.least or bad_of <= share * of):
            continue
        found = _of(facts, kind, lines, within_s)
        first = first or found
        if found.done.clears_at is None:
            told = f"{percent(bad_of, of)} of its {counted(of, noun)}"
            return _after(over, found, kind, told) if over else found
        over.append(kind)
    return first or _of(facts, None, lines, within_s)


def _of(facts: Facts, kind: KindCounts | None, bad: Iterable[Minute], within_s: float) -> Subject:
    group = first_group(facts, kind.kind if kind else None)
    done = what_was_done(facts, kind, group, bad=bad, within_s=within_s)
    named = f", most of {kind.kind}" if kind else ""
    return Subject(kind, group, done, (), named + _error(group))


def _after(over: list[KindCounts], found: Subject, kind: KindCounts, told: str) -> Subject:
    names = " and ".join(one.kind for one in over)
    named = f", most of {over[0].kind}; nothing is left to do for {names}; next is {kind.kind},"
    step = found.done.step or f"Look at the first group of errors of {kind.kind}."
    done = Done(found.done.words, step, None, found.done.is_held, found.done.is_mending)
    return Subject(kind, found.group, done, tuple(over), f"{named} {told}{_error(found.group)}")


def _error(group: Group | None) -> str:
    return f": {group.error_class}" if group and group.error_class else ""
