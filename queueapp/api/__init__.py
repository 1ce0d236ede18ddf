"""The JSON API under ``/api``, and the health addresses."""

from __future__ import annotations

from flask import Flask, Response, current_app, request

from queueapp.api import (
    bulk,
    causes,
    docs_page,
    export,
    feed,
    health,
    intake,
    kinds,
    leases,
    lists,
    metrics,
    moves,
    openapi,
    operation_plans,
    stats,
    switches,
    system,
    verdict,
    waiting,
    workers,
)
from queueapp.api.contract import API_VERSION, VERSION, is_ours
from queueapp.api.reading import read_query
from queueapp.api.schemas import NoQuery
from queueapp.auth.access import declared

LARGEST_BODY = 1024 * 1024


def init_app(app: Flask) -> None:
    """Register the API with ``app``."""
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY
    # "//" in an address is a mistake to be told about, not one to be redirected away from.
    app.url_map.merge_slashes = False
    # ``moves`` adds to the routes of ``jobs``, ``operation_plans`` to those of ``operations``.
    parts = (bulk, lists, export, moves, operation_plans, feed, kinds, leases, stats, verdict)
    for part in (*parts, causes, system, switches, workers, openapi, docs_page, health, metrics):
        app.register_blueprint(part.bp)
    waiting.init_app(app)
    intake.init_app(app)
    leases.init_app(app)
    app.before_request(_refuse_parameters)
    metrics.init_app(app)
    app.after_request(_say_version)


def _refuse_parameters() -> None:
    """Refuse parameters of what takes none, rather than do without them what was meant with them.

    Views that take some read them; what anybody may open, links lead to, with whatever they add.
    """
    asked = getattr(current_app.view_functions.get(request.endpoint or ""), "contract", None)
    is_open = request.endpoint is None or declared(current_app, request.endpoint) is None
    if asked and not is_open and asked.query is None and request.args:
        read_query(NoQuery)


def _say_version(response: Response) -> Response:
    if is_ours(request.path) or request.path == "/api":
        response.headers[VERSION.name] = API_VERSION
    return response
