"""What the list of causes is made from, read once for every tab of the process."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Flask, current_app
from sqlalchemy.orm import Session

from queueapp.console.readings import Reading, tried
from queueapp.jobs import queries
from queueapp.jobs.deploy import Deploy
from queueapp.jobs.queries import Line, Pulse, Window
from queueapp.shared import Shared
from queueapp.shared_readings import share_bounded


@dataclass(frozen=True)
class Failures:
    """What the list of causes is made from, read once for all who look."""

    pulse: Pulse
    window: Reading[Window]
    line: Reading[Line]
    deploy: Reading[Deploy | None]

    @property
    def mark(self) -> str:
        """Changes whenever the list would; its small charts move on with the minute."""
        unread = [one.reason for one in (self.window, self.line, self.deploy)]
        return f"{self.pulse.mark} {self.pulse.now:%H:%M} {unread}"


def init_app(app: Flask) -> None:
    """Let ``app`` share the look."""
    app.extensions["queue_causes"] = share_bounded(app, _read)


def shared_failures() -> Shared[Failures]:
    """The look that all of the process share."""
    found: Shared[Failures] = current_app.extensions["queue_causes"]
    return found


def _read(session: Session) -> Failures:
    pulse = queries.pulse(session)
    return Failures(
        pulse,
        tried(session, queries.failure_window),
        tried(session, queries.waiting_line),
        tried(session, queries.last_deploy, pulse.now),
    )
