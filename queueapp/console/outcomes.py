"""What an action came to, short enough for an address: ``retry.3.0.1``, or ``.2`` behind it. Pure.

Numbers and a known verb only: an address that somebody sends can show nothing of their own words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from queueapp.console.filters import plural
from queueapp.jobs.status import Event
from queueapp.jobs.transitions import Moved

_WRITTEN = re.compile(
    r"([a-z-]{1,20})\.(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:\.([1-9]\d{0,3}))?(?:\.w([1-9]\d{0,3}))?",
    re.ASCII,
)
_CLONED = re.compile(r"clone\.([1-9]\d{0,17})", re.ASCII)

_DID = {
    "retry": "Retrying", "cancel": "Cancelled", "release": "Released", "hold": "Held",
    "unhold": "Unheld", "run-now": "Made due", "reschedule": "Rescheduled",
    "due-at-once": "That time has passed, so due at once:",
    "purge": "Purged",
}  # fmt: skip
_REFUSED = {
    "release": "no longer the claim that you saw, or locked just now",
    "run-now": "due already, or locked just now",
    "reschedule": "that is where it stands already",
}
_UNABLE = "status does not allow it, or locked just now"
_SWITCHED = {
    "pause": "The queue is paused: nothing new starts, and what runs finishes.",
    "resume": "The queue goes on.",
    "hold": "The kind is on hold: nothing of it starts, and what waits is moved aside.",
    "unhold": "The hold is lifted: its jobs come back.",
    "drain": "The worker is asked to drain: it takes nothing new, finishes what it runs, and ends.",
}


@dataclass(frozen=True)
class Done:
    """``moved``: done at once; ``stopping``: running, asked to stop; ``refused``: left alone.

    ``moved_on``: left alone too, for they stand no more as the question said. ``waits``: of those
    moved, how many cannot start before a pause or a hold is lifted.
    """

    verb: str
    moved: int
    stopping: int
    refused: int
    moved_on: int = 0
    waits: int = 0

    @classmethod
    def of(
        cls,
        verb: str,
        moved: Sequence[Moved],
        *,
        asked_for: int,
        moved_on: int = 0,
        waits: int = 0,
    ) -> Done:
        """Sum up what the verb answered."""
        stopping = sum(one.event == Event.CANCEL_REQUESTED for one in moved)
        refused = asked_for - len(moved) - moved_on
        return cls(verb, len(moved) - stopping, stopping, refused, moved_on, waits)

    @classmethod
    def read(cls, text: str) -> Done | None:
        """Read what ``str`` wrote; None for anything else."""
        match = _WRITTEN.fullmatch(text)
        if match is None or match[1] not in _DID:
            return None
        return cls(match[1], *(int(number or 0) for number in match.groups()[1:]))

    def __str__(self) -> str:
        late = f".{self.moved_on}" if self.moved_on else ""
        waits = f".w{self.waits}" if self.waits else ""
        return f"{self.verb}.{self.moved}.{self.stopping}.{self.refused}{late}{waits}"

    @property
    def is_complete(self) -> bool:
        """Whether every job asked for was moved, and nothing keeps it from starting."""
        return not self.refused and not self.moved_on and not self.waits

    @property
    def sentence(self) -> str:
        """The same for people."""
        did = _DID[self.verb]
        parts = [f"{did} {plural(self.moved, 'job')}"] if self.moved else []
        if self.waits:
            which = "It waits" if self.moved == 1 else f"{self.waits:,} of them wait"
            why = "the queue is paused, or the kind is on hold"
            parts.append(f"{which}: {why}, and nothing starts before that is lifted")
        if self.stopping:
            parts.append(f"Asked {plural(self.stopping, 'running job')} to stop")
        if self.moved_on:
            were = "was" if self.moved_on == 1 else "were"
            parts.append(
                f"{self.moved_on} had moved on since you were asked, or {were} locked just now,"
                f" and {were} left alone"
            )
        if self.refused:
            were = "was" if self.refused == 1 else "were"
            why = _REFUSED.get(self.verb, _UNABLE)
            parts.append(f"{self.refused} {were} left alone: {why}")
        return f"{'. '.join(parts) or 'No job was ticked'}."


@dataclass(frozen=True)
class Switched:
    """A pause or a hold was set or lifted, or a worker asked to drain."""

    verb: str

    def __str__(self) -> str:
        return self.verb

    @property
    def is_complete(self) -> bool:
        """It is done, or it was refused and there is no outcome."""
        return True

    @property
    def sentence(self) -> str:
        """The same for people."""
        return _SWITCHED[self.verb]


@dataclass(frozen=True)
class Cloned:
    """A new job like another one was made."""

    job_id: int

    def __str__(self) -> str:
        return f"clone.{self.job_id}"

    @property
    def is_complete(self) -> bool:
        """It is made, or it was refused and there is no outcome."""
        return True

    @property
    def sentence(self) -> str:
        """The same for people."""
        return f"Cloned: the new job is {self.job_id}."


Outcome: TypeAlias = Done | Switched | Cloned


def read_outcome(text: str) -> Outcome | None:
    """Read what ``str`` of an outcome wrote; None for anything else."""
    if match := _CLONED.fullmatch(text):
        return Cloned(int(match[1]))
    return Switched(text) if text in _SWITCHED else Done.read(text)
