"""The documentation as a page: what the OpenAPI document says, for people to read."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, current_app, render_template, request
from markupsafe import Markup, escape

from queueapp import errors
from queueapp.api import (
    answers,
    causes,
    lease_answers,
    lease_schemas,
    operation_model,
    operation_schemas,
    switches,
    verdict,
    worker_answers,
    workers,
)
from queueapp.api.bulk import MOST_ITEMS
from queueapp.api.contract import (
    API_VERSION,
    EVERYWHERE,
    Answer,
    Example,
    Operation,
    Part,
    contract,
    operations,
)
from queueapp.api.list_schemas import MOST_JOBS
from queueapp.api.marked import marked_as
from queueapp.api.openapi import INTERNAL, PATH_PARAMETERS, fields_of, meaning
from queueapp.api.schemas import LONGEST_WAIT_S, MOST_EVENTS
from queueapp.auth import open_to_all
from queueapp.errors import (
    BadRequest,
    BodyTooLarge,
    DatabaseUnavailable,
    InvalidJob,
    InvalidRequest,
    NotJson,
    RequestTimeout,
    TooManyWaiters,
)
from queueapp.handlers.json_limits import DEEPEST
from queueapp.jobs.status import Status

bp = Blueprint("api_docs", __name__, url_prefix="/api/docs")

MODELS = (
    answers.Job, answers.JobSummary, answers.JobPart, answers.JobsPage,
    answers.Event, answers.EventsPage, answers.FeedLine, answers.FeedAnswer, answers.BulkAnswer,
    answers.BulkItem, answers.ItemProblem, answers.FieldProblem, answers.Kind,
    answers.Kinds, answers.Stats, answers.Count, answers.Health, answers.Ready, answers.Problem,
    lease_answers.WhyAnswer, lease_answers.AlsoInTheWay,
    lease_answers.LeasedJobs, lease_answers.LeasedJob, lease_answers.RenewedLeases,
    lease_answers.Renewed, lease_answers.ReportedProgress, lease_answers.Reported,
    lease_answers.SettledJobs, lease_answers.Settled,
    lease_schemas.Lease, lease_schemas.Report, lease_schemas.Succeed, lease_schemas.Fail,
    lease_schemas.Defer, lease_schemas.Release,
    operation_model.Operation, operation_schemas.OperationFilter,
    operation_model.OperationsPage, operation_model.OperationSummary,
    operation_model.JobsCount, switches.HoldAnswer, switches.StopAnswer, switches.SwitchAnswer,
    switches.Switches,
    verdict.Verdict, workers.DrainAnswer, workers.ReleaseAnswer,
    workers.ClaimSeen, worker_answers.Workers, worker_answers.Worker,
    causes.Causes, causes.Cause,
    answers.SystemReport, answers.SystemReading,
)  # fmt: skip
# What, how much, and the codes beyond it.
LIMITS = (
    (
        "Time for a request",
        "10 s for its head; 10 s for its body, and one for each 32 KiB",
        (RequestTimeout,),
    ),
    ("Body of a request", "1 MiB, JSON in UTF-8, not compressed", (BodyTooLarge, NotJson)),
    (
        "Body of a bulk",
        f"16 MiB, {MOST_ITEMS:,} jobs, 1 MiB a line or item",
        (BodyTooLarge, InvalidRequest),
    ),
    ("Payload", f"256 KiB as compact JSON, {DEEPEST} levels", (InvalidJob,)),
    (
        "A name twice in one object, NUL, lone surrogates, NaN, Infinity",
        "none",
        (InvalidJob, InvalidRequest),
    ),
    ("Page of jobs", f"{MOST_JOBS} jobs", (BadRequest,)),
    ("Page of events", f"{MOST_EVENTS} events", (BadRequest,)),
    ("Waiting for a job's end", f"{LONGEST_WAIT_S} s", (BadRequest,)),
    ("Requests that wait, in one process", "QUEUE_MAX_WAITERS", (TooManyWaiters,)),
    ("A read of the database", "2 s", (DatabaseUnavailable,)),
)
_HOST = re.compile(r"[A-Za-z0-9.-]+(?::\d{1,5})?|\[[0-9a-fA-F:.]+\](?::\d{1,5})?", re.ASCII)
_WORDS = {"integer": "whole number", "string": "text", "boolean": "true or false"}


@dataclass(frozen=True)
class Row:
    """A field, a parameter or a header as the page shows it."""

    name: str
    type: str
    about: str
    required: bool = False


@bp.get("/")
@open_to_all
@contract(
    Part.QUEUE,
    {
        200: Answer("The page.", schema={"type": "string"}, media_type="text/html"),
        304: Answer("It is still the same."),
    },
    asks_database=False,
)
def page() -> Response:
    """Show the documentation of the API as a page, with commands to copy."""
    found = operations(current_app)
    text = render_template(
        "pages/api_docs.html",
        version=API_VERSION,
        parts=[(part, [one for one in found if one.contract.part is part]) for part in Part],
        has_tokens=bool(current_app.extensions["queue_tokens"]),
        base=_base(),
        everywhere=EVERYWHERE,
        models=[
            (m.__name__, inspect.getdoc(m), _rows_of(m), m.__module__ == lease_schemas.__name__)
            for m in MODELS
        ],
        codes=_codes(),
        parameters=_parameters,
        body_rows=lambda one: _rows_of(one.contract.body.model),
        refusals=_refusals,
        limits=[(what, limit, [e.code for e in beyond]) for what, limit, beyond in LIMITS],
        command=_command,
        phrase=lambda status: HTTPStatus(status).phrase,
    )
    return marked_as(Response(text, mimetype="text/html"), text.encode())


@bp.app_template_filter("code")
def _code(text: str) -> Markup:
    """What stands between backticks, as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


@bp.app_template_global("base_url")
def _base() -> str:
    """The address that the reader came to; a Host that is none is not written into commands."""
    host = request.headers.get("Host", "")
    if not _HOST.fullmatch(host):
        return "http://127.0.0.1:8000"
    return f"{request.scheme}://{host}{quote(request.script_root)}"


def _parameters(one: Operation) -> Iterator[tuple[str, Row]]:
    for name in one.path_parameters:
        about, schema = PATH_PARAMETERS[name]
        yield "address", Row(name, _type(schema), about, required=True)
    if one.contract.query:
        for row in _rows_of(one.contract.query):
            yield "query", row
    for header in one.contract.takes:
        yield "header", Row(header.name, _type(header.schema), header.about)


@cache
def _rows_of(model: Any) -> list[Row]:
    # What an answer always has is no demand on its reader.
    asks = model.model_config.get("extra") == "forbid"
    fields = model.model_fields.items()
    required = {f.alias or name for name, f in fields if asks and f.is_required()}
    return [
        Row(name, _type(schema), schema.get("description", ""), name in required)
        for name, schema in fields_of(model).items()
    ]


def _type(schema: Any) -> str:
    """The type and its limits, in words."""
    if choices := schema.get("oneOf"):
        return " or ".join(map(_type, choices))
    if "anyOf" in schema:
        known = [one for one in schema["anyOf"] if one != {"type": "null"}]
        null = " or null" if len(known) < len(schema["anyOf"]) else ""
        return " or ".join(map(_type, known)) + null
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return ", ".join(Status) if name == Status.__name__ else name
    if words := schema.get("enum", [schema["const"]] if "const" in schema else ()):
        return ", ".join(map(str, words))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    word = "time" if schema.get("format") == "date-time" else str(schema.get("type", "any value"))
    return _WORDS.get(word, word) + _limits(schema)


def _limits(schema: Any) -> str:
    unit = " characters" if schema.get("type") == "string" else ""
    low = schema.get("minimum", schema.get("minLength"))
    high = schema.get("maximum", schema.get("maxLength"))
    default = f"; else {json.dumps(schema['default'])}" if "default" in schema else ""
    if low is None and high is None:
        return default
    if low is None:
        return f", at most {_figure(high)}{unit}{default}"
    if high is None:
        return f", from {_figure(low)}{unit}{default}"
    return f", {_figure(low)} to {_figure(high)}{unit}{default}"


def _figure(number: float) -> str:
    text = f"{int(number):,}" if abs(number) > 99_999 else f"{int(number)}"
    return text.replace("-", "−")


def _refusals(one: Operation) -> list[tuple[int, list[str]]]:
    """The codes by status."""
    found: dict[int, list[str]] = {}
    for error in one.refuses:
        found.setdefault(error.status, []).append(error.code)
    found.setdefault(500, []).append(INTERNAL[0])
    return sorted(found.items())


def _codes() -> list[tuple[str, int, str]]:
    """Every code of an answer; each has its anchor, which the ``type`` of a refusal leads to."""
    classes = [one for _, one in inspect.getmembers(errors, inspect.isclass)]
    found = [
        (one.code, one.status, meaning(one))
        for one in classes
        if issubclass(one, errors.QueueError) and one.status != 500
    ]
    return sorted([*found, (INTERNAL[0], 500, INTERNAL[1])], key=lambda it: (it[1], it[0]))


def _command(one: Operation, example: Example, base: str, *, has_tokens: bool) -> str:
    """A command for a shell that makes the request."""
    values = dict(example.path)
    path = re.sub(r"{(\w+)}", lambda match: values[match[1]], one.path)
    address = f"{base}{path}" + (f"?{example.query}" if example.query else "")
    parts = [f"curl {'-X POST ' if _is_bare_post(one, example) else ''}{shlex.quote(address)}"]
    if has_tokens and one.permission is not None:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    kind = "application/x-ndjson" if example.lines else "application/json"
    if example.json is not None or example.lines:
        parts.append(f"-H 'Content-Type: {kind}'")
    parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in example.headers]
    if example.lines:
        parts.append(f"--data-binary {shlex.quote(chr(10).join(map(json.dumps, example.lines)))}")
    if example.json is not None:
        parts.append(f"-d {shlex.quote(json.dumps(example.json))}")
    return " \\\n  ".join(parts)


def _is_bare_post(one: Operation, example: Example) -> bool:
    return one.method == "POST" and example.json is None and not example.lines
