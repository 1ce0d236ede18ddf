"""What keeps jobs from starting that somebody lets run: the queue's pause, holds on their kinds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from queueapp.console import banner
from queueapp.jobs.control import Controls, Switch, scope_of
from queueapp.jobs.models import Job
from queueapp.jobs.operations import UNDO, Operation, Trial
from queueapp.jobs.status import WAITING

# Verbs after which jobs are to start; the undo of the others lets them start again.
STARTING = ("retry", "run-now", "unhold", "release")
UNDO_STARTS = ("cancel", "hold")
# Kinds on hold that are named.
MOST_NAMED = 3


@dataclass(frozen=True)
class Stops:
    """``pause``: of the queue. ``held``: holds by kind, ``more``: how many others there are."""

    pause: Switch | None = None
    held: Mapping[str, Switch] = field(default_factory=dict)
    more: int = 0

    @classmethod
    def of(cls, controls: Controls | None, kinds: Collection[str] | None) -> Stops:
        """Of the jobs of these ``kinds``; None: of whatever kind. None of ``controls``: unknown."""
        if controls is None:
            return cls()
        held = [kind for kind in controls.held_kinds if kinds is None or kind in kinds]
        named = {kind: controls.latest[scope_of(kind)] for kind in held[:MOST_NAMED]}
        return cls(controls.pause, named, len(held) - len(named))

    def __bool__(self) -> bool:
        return self.pause is not None or bool(self.held)


def known() -> Controls | None:
    """The pauses and holds in the look that all share; None: they could not be read."""
    facts = banner.facts()
    return facts.controls if facts else None


def mark_of(made: Operation) -> str:
    """Changes whenever something would that is shown of them on the page of ``made``."""
    controls = known() if lets_run(made) else None
    latest = controls.latest.values() if controls else ()
    return repr(sorted(switch.id for switch in latest if switch.stops))


def of_operation(
    made: Operation,
    sample: Sequence[Job],
    trials: Sequence[Trial],
    fates: Sequence[tuple[str, str]],
) -> Stops:
    """What keeps its jobs from starting, while any are to: they are not over, or yet to move."""
    waits = not made.is_over or any(name in WAITING for name, _ in fates)
    if not waits or not lets_run(made):
        return Stops()
    return Stops.of(known(), _kinds_of(made, sample, trials))


def _kinds_of(
    made: Operation, sample: Sequence[Job], trials: Sequence[Trial]
) -> Collection[str] | None:
    """The kinds of the jobs that are to start next; None: that is not known."""
    if made.asked.kind:
        return {made.asked.kind}
    if made.is_on_trial:
        return {trial.row.kind for trial in trials}
    is_whole = made.counts.whole and len(sample) == made.counts.total
    return {job.kind for job in sample} if made.state == "planned" and is_whole else None


def lets_run(made: Operation) -> bool:
    """Whether its jobs are to start, or may again."""
    return made.how["verb"] in UNDO_STARTS if made.verb == UNDO else made.verb in STARTING
