"""What a route promises, declared beside it: what it takes, what it answers, how it refuses.

The OpenAPI document and the page of the documentation are made from these declarations and from the
models that check requests; a route that declares nothing fails a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar, cast

from flask import Flask
from pydantic import BaseModel

from queueapp.auth.access import BESIDE_API, declared
from queueapp.auth.matrix import WHOLE
from queueapp.auth.read_only import CLOSES
from queueapp.auth.roles import GRANTS, Permission, Role
from queueapp.errors import (
    BadRequest,
    BodyTooLarge,
    DatabaseUnavailable,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    NotJson,
    QueueError,
    ReadOnly,
    RequestTimeout,
    SchemaMismatch,
)

View = TypeVar("View", bound=Callable[..., Any])

# Stays as long as change is additive: fields, parameters, routes and codes may come, none goes.
API_VERSION = "1"


class Part(StrEnum):
    """The parts of the API, in the order of the documentation."""

    PRODUCE = "Produce"
    READ = "Read"
    ACT = "Act"
    WORK = "Work"
    QUEUE = "The queue"


@dataclass(frozen=True)
class Header:
    """A header of a request or of an answer."""

    name: str
    about: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


VERSION = Header("Queue-API-Version", "The version of this contract; change within it is additive.")
REQUEST_ID = Header(
    "X-Request-Id", "The id of the request in the log: the one that was sent, or a new one."
)
EVERYWHERE = (VERSION, REQUEST_ID)
LOCATION = Header("Location", "The address of the job.")
REPLAYED = Header(
    "Idempotent-Replayed",
    "Sent where the same request has been here before.",
    {"type": "string", "const": "true"},
)
RETRY_AFTER = Header("Retry-After", "Seconds until another try makes sense.", {"type": "integer"})
ESTIMATED_WAIT = Header(
    "Queue-Estimated-Wait",
    "Sent while more jobs wait than the soft limit: seconds until what is due now should have been"
    " begun, by the rate of the last minutes, or `unknown`.",
    {"type": "string", "pattern": "^([0-9]+|unknown)$"},
)
WWW_AUTHENTICATE = Header("WWW-Authenticate", "Which credentials are wanted.")
ETAG = Header("ETag", "The mark of this answer, for If-None-Match.")
IF_NONE_MATCH = Header("If-None-Match", "The ETag of the answer that the client has.")
IDEMPOTENCY_KEY = Header(
    "Idempotency-Key",
    "The same as the field idempotency_key: the request may be repeated, the job is created once.",
    {"type": "string", "minLength": 1, "maxLength": 200},
)


@dataclass(frozen=True)
class Answer:
    """One answer that is no refusal. ``model``: None for one without a body."""

    about: str
    model: type[BaseModel] | None = None
    headers: tuple[Header, ...] = ()
    # What the model cannot say: a document of another standard.
    schema: Mapping[str, Any] | None = None
    media_type: str = "application/json"


@dataclass(frozen=True)
class Body:
    """What a request carries. ``many``: up to so many of these, as an array or as NDJSON."""

    model: type[BaseModel]
    required: bool = True
    many: int | None = None


@dataclass(frozen=True)
class Example:
    """One request, of which the documentation makes a command."""

    about: str
    query: str = ""
    json: Any = None
    lines: tuple[Any, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    path: tuple[tuple[str, str], ...] = (
        ("job_id", "1"),
        ("kind", "demo.echo"),
        ("operation_id", "5f0c2a9d83b1e647"),
        ("worker", "worker:web-1:4711:9f3a1c"),
    )


@dataclass(frozen=True)
class Contract:
    """Everything that a route says of itself."""

    part: Part
    answers: Mapping[int, Answer]
    query: type[BaseModel] | None = None
    body: Body | None = None
    takes: tuple[Header, ...] = ()
    refuses: tuple[type[QueueError], ...] = ()
    asks_database: bool = True
    more: str = ""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class Operation:
    """A contract where it stands: one method at one address."""

    method: str
    path: str
    name: str
    summary: str
    permission: Permission | None
    contract: Contract

    @property
    def path_parameters(self) -> list[str]:
        """The names in the address."""
        return re.findall(r"{(\w+)}", self.path)

    @property
    def refuses(self) -> list[type[QueueError]]:
        """Every deliberate refusal: the route's own, and those that follow from what it takes."""
        found = set(self.contract.refuses)
        if self.contract.query or self.contract.body or self.permission is not None:
            found.add(BadRequest)
        if self.contract.body:
            found |= {BodyTooLarge, InvalidRequest, NotJson, RequestTimeout}
        if self.permission is not None:
            found |= {NotAuthenticated, NotAllowed}
        if self.permission in CLOSES:
            found.add(ReadOnly)
        if self.contract.asks_database:
            found |= {DatabaseUnavailable, SchemaMismatch}
        return sorted(found, key=lambda one: (one.status, one.code))

    @property
    def who(self) -> str:
        """Who may call it, in words."""
        if self.permission is None:
            return "Anybody."
        fully = GRANTS[WHOLE.get(self.permission, self.permission)]
        own = GRANTS[self.permission] - fully
        text = ", ".join(role for role in Role if role in fully)
        return f"{text}; {', '.join(own)} for its own jobs." if own else f"{text}."


def contract(part: Part, answers: Mapping[int, Answer], **more: Any) -> Callable[[View], View]:
    """Declare what a view promises. Stands under the route's decorator, like ``permits``."""

    def declare(view: View) -> View:
        cast(Any, view).contract = Contract(part, answers, **more)
        return view

    return declare


def is_ours(path: str) -> bool:
    """Whether an address belongs to the API: documented, and answered with JSON."""
    return path.startswith("/api/") or path in BESIDE_API


def operations(app: Flask) -> list[Operation]:
    """Every operation of the API that is declared, in the order of the documentation."""
    found = [
        Operation(
            method,
            re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule),
            rule.endpoint.removeprefix("api_").replace(".", "_"),
            (view.__doc__ or "").strip().partition("\n")[0],
            declared(app, rule.endpoint),
            cast(Any, view).contract,
        )
        for rule in app.url_map.iter_rules()
        if is_ours(rule.rule) and hasattr(view := app.view_functions[rule.endpoint], "contract")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    ]
    parts = list(Part)
    return sorted(found, key=lambda one: (parts.index(one.contract.part), one.path, one.method))
