"""The numbers beside the verdict: what comes and ends, what fails, who works. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from queueapp.jobs.verdict.done import FAILING_S
from queueapp.jobs.verdict.facts import Facts
from queueapp.jobs.verdict.minutes import about, last, rate, total

# Over how long the pace is told.
PACE_S = 300.0


@dataclass(frozen=True)
class Numbers:
    """Each None where it is not known.

    ``arrived``, ``ended``: jobs a minute, over five minutes; ``failures`` of ``attempts``: in ten
    minutes; ``alive``: workers that can run jobs, with ``slots`` threads, ``running`` jobs;
    ``unconnected``: others that signed a moment ago. ``is_behind``: an attempt has ended that no
    line counts yet. ``blind_since``: from when on nothing is counted, so that no pace and no share
    is known; ``minutes``: of how many the share tells.
    """

    arrived: float | None
    ended: float | None
    attempts: int | None
    failures: int | None
    alive: int | None
    slots: int | None
    running: int | None
    unconnected: int | None
    is_behind: bool = False
    blind_since: datetime | None = None
    minutes: int = round(FAILING_S / 60)

    @property
    def as_of_ends(self) -> str:
        """What stands behind a pace of none, where something has just ended."""
        return " in the last whole minutes" if self.is_behind and not self.ended else ""

    @classmethod
    def of(cls, facts: Facts) -> Numbers:
        """Take them from what was read."""
        blind_since = facts.hour.blind_since(facts.now) if facts.hour else None
        minutes = facts.hour.minutes if facts.hour and not blind_since else []
        pace = last(minutes, facts.now, PACE_S)
        recent = last(minutes, facts.now, FAILING_S)
        return cls(
            rate(pace, lambda minute: minute.arrived),
            rate(pace, lambda minute: minute.ended),
            total(recent, lambda minute: minute.attempts) if recent else None,
            total(recent, lambda minute: minute.failures) if recent else None,
            facts.signs.alive(facts.now) if facts.signs else None,
            facts.signs.slots(facts.now) if facts.signs else None,
            facts.line.running if facts.line else None,
            len(facts.signs.unconnected) if facts.signs else None,
            bool(pace and facts.line and _is_after(facts.line.ended_at, pace[-1].at)),
            blind_since,
            about(recent, facts.now, FAILING_S),
        )


def _is_after(ended_at: datetime | None, counted_to: datetime) -> bool:
    return ended_at is not None and ended_at > counted_to
