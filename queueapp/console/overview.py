"""All that the first page shows, read once for every tab of the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from flask import Flask
from sqlalchemy import Row
from sqlalchemy.orm import Session

from queueapp import counts
from queueapp.console.readings import Reading, tried
from queueapp.jobs import queries
from queueapp.jobs.queries import Action, PriorityDepth, Pulse
from queueapp.jobs.status import Status
from queueapp.shared import Shared
from queueapp.shared_readings import share_bounded

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Overview:
    """The state of the queue, each part read or with the reason why not.

    ``counted``: of when the counts were made, which may have been a moment earlier or later.
    """

    pulse: Pulse
    counted: Pulse
    counts: Reading[dict[Status, int]]
    depths: Reading[list[PriorityDepth]]
    failed: Reading[int]
    longest: Reading[Sequence[Row[Any]]]
    actions: Reading[Sequence[Action]]
    marks: Reading[Sequence[Action]]

    @property
    def mark(self) -> str:
        """Changes whenever the page would; progress leaves no line in the ledger."""
        progress = ",".join(f"{row.id}:{row.progress}" for row in self.longest.value or ())
        reasons = [part.reason for part in self.parts.values() if part.reason]
        pulses = f"{self.pulse.mark} {self.counted.mark}"
        return f"{pulses} {self.pulse.now:%H:%M} {progress} {reasons}"

    @property
    def parts(self) -> Mapping[str, Reading[Any]]:
        """The parts that may fail by themselves."""
        names = ("counts", "depths", "failed", "longest", "actions", "marks")
        return {name: getattr(self, name) for name in names}


def init_app(app: Flask) -> None:
    """Let ``app`` share one overview."""
    app.extensions["queue_overview"] = share_bounded(app, partial(_read, app))


def shared(app: Flask) -> Shared[Overview]:
    """The overview that all of the process share."""
    found: Shared[Overview] = app.extensions["queue_overview"]
    return found


def _read(app: Flask, session: Session) -> Overview:
    # Side by side.
    begun = counts.shared(app).begin()
    pulse = queries.pulse(session)
    failed = tried(session, queries.failed_since, HOUR)
    longest = tried(session, queries.longest_running)
    actions = tried(session, queries.last_actions)
    marks = tried(session, queries.marks_of_hour)
    known = counts.present(app, begun=begun)
    return Overview(
        pulse, known.pulse, known.by_status, known.depths, failed, longest, actions, marks
    )
