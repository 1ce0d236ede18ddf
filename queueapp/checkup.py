"""How well the database serves the queue: one look for the page, the API and the command."""

from __future__ import annotations

from functools import partial

from flask import Flask, current_app
from sqlalchemy.orm import Session

from queueapp.auth import Permission, current_principal
from queueapp.config import Settings
from queueapp.extensions import db
from queueapp.jobs.system.report import report
from queueapp.jobs.system.told import Asked, System
from queueapp.schema import schema_head
from queueapp.shared import Snapshot
from queueapp.shared_readings import present, share


def init_app(app: Flask) -> None:
    """Let ``app`` share the readings: once with the texts of others' queries, once without."""
    app.extensions["queue_system"] = {
        sees_queries: share(app, partial(read_system, app, sees_queries=sees_queries))
        for sees_queries in (False, True)
    }


def present_system(*, life_s: float | None = None) -> System:
    """Every reading as the present principal may see it, read once for all who look.

    ``life_s``: how old they may be, see ``Shared.get``. Raises DatabaseUnavailable when there is
    none that says anything of now.
    """
    # The texts of other people's queries may hold secrets.
    shared = current_app.extensions["queue_system"][current_principal().may(Permission.ADMIN)]
    snapshot: Snapshot[System] = shared.get(life_s=life_s)
    return present(snapshot)


def read_system(app: Flask, *, sees_queries: bool) -> System:
    """Take every reading for ``app`` now. Raises what the database raises."""
    settings: Settings = app.extensions["queue_settings"]
    with app.app_context(), Session(db.engine) as session:
        return report(
            session,
            Asked(
                revision=schema_head(),
                sees_queries=sees_queries,
                pooled=settings.pooler,
                is_closed=settings.read_only,
            ),
        )
