"""The JSON API under ``/api``, and the health addresses."""

from __future__ import annotations

from flask import Flask, Response, request

from queueapp import kept
from queueapp.api import (
    bulk,
    docs_page,
    export,
    feed,
    health,
    kinds,
    leases,
    lists,
    moves,
    openapi,
    operations,
    stats,
    system,
    waiting,
)
from queueapp.api.contract import API_VERSION, VERSION, is_ours

LARGEST_BODY = 1024 * 1024


def init_app(app: Flask) -> None:
    """Register the API with ``app``."""
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY
    # "//" in an address is a mistake to be told about, not one to be redirected away from.
    app.url_map.merge_slashes = False
    # ``moves`` adds to the routes of ``jobs``.
    parts = (bulk, lists, export, moves, operations, feed, kinds, leases, stats, openapi, docs_page)
    for part in (*parts, health, system):
        app.register_blueprint(part.bp)
    waiting.init_app(app)
    leases.init_app(app)
    kept.init_app(app)
    app.after_request(_say_version)


def _say_version(response: Response) -> Response:
    if is_ours(request.path) or request.path == "/api":
        response.headers[VERSION.name] = API_VERSION
    return response
