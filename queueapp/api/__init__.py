"""The JSON API under ``/api``, and the health addresses."""

from __future__ import annotations

from flask import Flask

from queueapp.api import bulk, health, jobs, leases, stats, waiting

LARGEST_BODY = 1024 * 1024


def init_app(app: Flask) -> None:
    """Register the API with ``app``."""
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY
    # "//" in an address is a mistake to be told about, not one to be redirected away from.
    app.url_map.merge_slashes = False
    waiting.init_app(app)
    leases.init_app(app)
    for part in (bulk, jobs, leases, stats, health):
        app.register_blueprint(part.bp)
