"""How many jobs stand where: counted once for all pages of this process, and for the API."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Flask
from sqlalchemy.orm import Session

from queueapp import shared_readings
from queueapp.jobs import queries
from queueapp.jobs.queries import PriorityDepth, Pulse
from queueapp.jobs.queries.attempted import Reading, tried
from queueapp.jobs.status import Status
from queueapp.shared import Shared


@dataclass(frozen=True)
class Counts:
    """Bounded counts, each part read or with the reason why not.

    ``pulse``: of the moment before. What it tells of is in them, and perhaps what came then.
    """

    pulse: Pulse
    by_status: Reading[dict[Status, int]]
    depths: Reading[list[PriorityDepth]]


def init_app(app: Flask) -> None:
    """Let ``app`` share its counts."""
    app.extensions["queue_counts"] = shared_readings.share_bounded(app, _read)


def shared(app: Flask) -> Shared[Counts]:
    """The counts that all of the process share."""
    found: Shared[Counts] = app.extensions["queue_counts"]
    return found


def present(app: Flask, *, begun: bool = False) -> Counts:
    """The counts, a moment old at most. Raises DatabaseUnavailable.

    ``begun``: as in ``Shared.get``.
    """
    return shared_readings.present(shared(app).get(begun=begun))


def at_hand(app: Flask) -> Counts | None:
    """The counts that would be given now without counting anew; None if there are none."""
    reading = shared(app)
    snapshot = reading.peek()
    return snapshot.value if snapshot.age_s < reading.life_s else None


def _read(session: Session) -> Counts:
    pulse, depths = queries.pulse(session), tried(session, queries.depth_by_priority)
    # What waits is counted once for both.
    by_status = tried(session, lambda it: queries.status_counts(it, depths=depths.value))
    return Counts(pulse, by_status, depths)
