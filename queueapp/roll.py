"""Who is at work, read in the same way for the console and the API."""

from __future__ import annotations

from flask import current_app
from sqlalchemy.orm import Session

from queueapp.config import Settings
from queueapp.jobs import queries, workers
from queueapp.jobs.presence import Connections
from queueapp.jobs.queries.attempted import tried
from queueapp.jobs.workers import Roll


def read_roll(session: Session) -> Roll:
    """Who is there, as of now. The statements of ``session`` must be bounded."""
    settings: Settings = current_app.extensions["queue_settings"]
    listed = tried(session, lambda open_: workers.connections(open_, pooled=settings.pooler))
    now = queries.database_now(session)
    return workers.call(session, now, listed.value or Connections({}, listed.reason))
