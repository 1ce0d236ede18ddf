"""What is known of all kinds, read once for every tab of the process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flask import Flask, current_app
from sqlalchemy.orm import Session

from queueapp.console.answers import timer_life_s
from queueapp.console.readings import Reading, tried
from queueapp.jobs import control, queries
from queueapp.jobs import kinds as by_kind
from queueapp.jobs.control import Controls, Switch, scope_of
from queueapp.jobs.kinds import Hour, Tally
from queueapp.jobs.queries import Pulse
from queueapp.shared import Shared, life_s
from queueapp.shared_readings import present, share_bounded

NUMBERS = ("waiting", "running", "held", "failed")


@dataclass(frozen=True)
class Look:
    """What is known of all kinds, each part read or with the reason why not."""

    pulse: Pulse
    waiting: Reading[Tally]
    running: Reading[Tally]
    held: Reading[Tally]
    failed: Reading[Tally]
    hour: Reading[Hour]
    controls: Reading[Controls]

    @property
    def mark(self) -> str:
        """Changes whenever a page of kinds would; ages go on by themselves."""
        return f"{self.pulse.mark} {self.pulse.now:%H:%M} {self.reasons}"

    @property
    def reasons(self) -> list[str]:
        """Why parts could not be read, each once."""
        parts = (*(getattr(self, name) for name in NUMBERS), self.hour, self.controls)
        return list(dict.fromkeys(part.reason for part in parts if part.reason))

    def switch_of(self, kind: str) -> Switch | None:
        """The latest hold of a kind, or its lift."""
        return self.controls.value.latest.get(scope_of(kind)) if self.controls.value else None


class _Reader:
    """Reads all of it; the last hour once a minute, for workers write a line of it a minute."""

    def __init__(self, life_s: float) -> None:
        self._life_s = life_s
        self._minute = ""
        self._hour: Reading[Hour] = Reading(None)

    def read(self, session: Session) -> Look:
        """Read it now."""
        pulse = queries.pulse(session)
        return Look(
            pulse=pulse,
            waiting=tried(session, by_kind.waiting),
            running=tried(session, by_kind.running),
            held=tried(session, by_kind.held),
            failed=tried(session, by_kind.failed),
            hour=self._last_hour(session, pulse.now),
            controls=tried(session, control.in_force),
        )

    def _last_hour(self, session: Session, now: datetime) -> Reading[Hour]:
        minute = f"{now:%Y-%m-%d %H:%M}"
        if self._hour.value is None or minute != self._minute or not self._life_s:
            self._minute, self._hour = minute, tried(session, by_kind.last_hour, now)
        return self._hour


def init_app(app: Flask) -> None:
    """Let ``app`` share what is known of kinds."""
    app.extensions["queue_kinds"] = share_bounded(app, _Reader(life_s(app)).read)


def shared_kinds() -> Shared[Look]:
    """What all of the process know of kinds."""
    found: Shared[Look] = current_app.extensions["queue_kinds"]
    return found


def look_at_kinds() -> Look:
    """What is known of all kinds. Raises DatabaseUnavailable when there is nothing of now."""
    return present(shared_kinds().get(life_s=timer_life_s()))
