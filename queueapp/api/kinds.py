"""The kinds of job that may be created here: what each takes, and how it is tried."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, current_app
from pydantic import PydanticUserError

from queueapp import handlers
from queueapp.api import answers
from queueapp.api.contract import ETAG, IF_NONE_MATCH, Answer, Example, Part, contract
from queueapp.api.known_kinds import meant, names
from queueapp.api.marked import marked
from queueapp.auth import Permission, permits
from queueapp.config import Settings
from queueapp.errors import KindNotFound
from queueapp.handlers import Handler
from queueapp.jobs.failure import printable

bp = Blueprint("api_kinds", __name__, url_prefix="/api/kinds")

_SAME = Answer("It is still the same.", headers=(ETAG,))
_ANY: dict[str, Any] = {"type": "object"}


@bp.get("")
@permits(Permission.READ_KINDS)
@contract(
    Part.PRODUCE,
    {200: Answer("Every kind, by name.", answers.Kinds, (ETAG,)), 304: _SAME},
    takes=(IF_NONE_MATCH,),
    asks_database=False,
    examples=(Example("Which kinds are there?"),),
)
def index() -> Response:
    """List the kinds of job that may be created, with the JSON Schema of their payloads."""
    return marked({"items": [_of_name(name) for name in names()]})


@bp.get("/<kind>")
@permits(Permission.READ_KINDS)
@contract(
    Part.PRODUCE,
    {200: Answer("The kind.", answers.Kind, (ETAG,)), 304: _SAME},
    takes=(IF_NONE_MATCH,),
    refuses=(KindNotFound,),
    asks_database=False,
    examples=(Example("What does a kind take?"),),
)
def show(kind: str) -> Response:
    """Show one kind of job, with the JSON Schema of its payload."""
    known = names()
    if kind not in known:
        said = meant(kind, known)
        raise KindNotFound(f"there is no kind '{printable(kind[:100])}' here{said}")
    return marked(_of_name(kind))


def _of_name(name: str) -> dict[str, Any]:
    handler, policy = handlers.find(name), handlers.current()
    attempts = handler.max_attempts if handler else None
    timeout = handler.timeout_s if handler else None
    settings: Settings = current_app.extensions["queue_settings"]
    return {
        "kind": name,
        "about": handler.about if handler else "",
        "owner": handler.owner if handler else None,
        "docs": handler.docs if handler else None,
        "payload": _schema(handler) if handler else _ANY,
        "max_attempts": policy.max_attempts if attempts is None else attempts,
        "timeout": settings.job_timeout if timeout is None else timeout,
        "external": name in policy.external_kinds,
    }


def _schema(handler: Handler) -> dict[str, Any]:
    try:
        return handler.schema()
    except PydanticUserError:
        # A type whose check is code of its own; the handler still checks it.
        return _ANY
