"""The contract as an OpenAPI 3.1 document, made from the routes, their declarations and the models.

Nothing here is written down twice: what a request may hold comes from the models that check it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache, partial
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Flask, Response, current_app
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from queueapp.api.answers import Problem
from queueapp.api.contract import (
    API_VERSION,
    ETAG,
    EVERYWHERE,
    IF_NONE_MATCH,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    Answer,
    Body,
    Header,
    Operation,
    Part,
    contract,
    operations,
)
from queueapp.api.marked import marked
from queueapp.auth import open_to_all
from queueapp.errors import QueueError
from queueapp.jobs.names import KIND, OPERATION

bp = Blueprint("api_openapi", __name__, url_prefix="/api")

Json = dict[str, Any]

PATH_PARAMETERS = {
    "job_id": ("The job's number.", {"type": "string", "pattern": "^[1-9][0-9]{0,18}$"}),
    "operation_id": (
        "The operation's id.",
        {"type": "string", "pattern": f"^{OPERATION.pattern}$"},
    ),
    "worker": ("The worker's name, as `locked_by` of its jobs has it.", {"type": "string"}),
    "kind": ("The kind's name.", {"type": "string", "pattern": f"^{KIND.pattern}$"}),
}
INTERNAL = ("internal_error", "A fault of ours; the log has it under the request id.")
ABOUT = """\
JSON over HTTP, for producers in any language and for scripts of operators.

There is no version in the address. Change is additive: routes, fields, parameters and codes may be
added, so a client ignores what it does not know. Refusals are always application/problem+json:
decide by `code`. HEAD works wherever GET does. An address that does not exist is answered 404
`not_found`, a method that does not 405 `method_not_allowed`; what the web server itself refuses has
the code `http_<status>`."""


@bp.get("/openapi.json")
@open_to_all
@contract(
    Part.QUEUE,
    {
        200: Answer("The document.", schema={"type": "object"}, headers=(ETAG,)),
        304: Answer("It is still the same.", headers=(ETAG,)),
    },
    takes=(IF_NONE_MATCH,),
    asks_database=False,
)
def openapi() -> Response:
    """Describe the API as an OpenAPI 3.1 document."""
    # Anybody may ask, and making it takes a while.
    made = current_app.extensions.setdefault("queue_openapi", {})
    has_tokens = bool(current_app.extensions["queue_tokens"])
    if has_tokens not in made:
        made[has_tokens] = document(current_app)
    return marked(made[has_tokens])


def document(app: Flask) -> Json:
    """The whole document."""
    found = operations(app)
    refs, schemas = _schemas(found)
    paths: dict[str, Json] = defaultdict(dict)
    has_tokens = bool(app.extensions["queue_tokens"])
    for one in found:
        paths[one.path][one.method.lower()] = _operation(one, refs, has_tokens=has_tokens)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Queue", "version": API_VERSION, "description": ABOUT},
        "servers": [{"url": app.extensions["queue_settings"].prefix or "/"}],
        "tags": [{"name": part.value} for part in Part],
        "paths": dict(paths),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Plain(GenerateJsonSchema):
    """Without titles that repeat names, and without a default where nothing was sent."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Say no."""
        return False

    def default_schema(self, schema: Any) -> Json:
        """Leave out None: null is no value here."""
        if schema.get("default") is None and "default_factory" not in schema:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


@cache
def fields_of(model: type[BaseModel]) -> Json:
    """The properties of a model, each as JSON Schema; to be read only."""
    return _json_schemas([model])[1][model.__name__]["properties"]  # type: ignore[no-any-return]


def _json_schemas(models: Iterable[type[BaseModel]]) -> tuple[dict[Any, Json], Json]:
    mode: JsonSchemaMode = "validation"
    refs, made = models_json_schema(
        [(model, mode) for model in models],
        ref_template="#/components/schemas/{model}",
        schema_generator=_Plain,
    )
    return {model: ref for (model, _), ref in refs.items()}, made.get("$defs", {})


def _schemas(found: Iterable[Operation]) -> tuple[dict[Any, Json], Json]:
    models: set[type[BaseModel]] = {Problem}
    for one in found:
        answers = (answer.model for answer in one.contract.answers.values())
        body = one.contract.body
        models |= {m for m in (*answers, one.contract.query, body and body.model) if m}
    refs, schemas = _json_schemas(sorted(models, key=lambda model: model.__name__))
    queries = {one.contract.query.__name__ for one in found if one.contract.query}
    return refs, {name: schema for name, schema in schemas.items() if name not in queries}


def _operation(one: Operation, refs: dict[Any, Json], *, has_tokens: bool) -> Json:
    told: Json = {
        "operationId": one.name,
        "tags": [one.contract.part.value],
        "summary": one.summary,
        "description": " ".join(filter(None, (one.contract.more, f"Who may: {one.who}"))),
        "parameters": _parameters(one),
        "responses": _responses(one, refs),
    }
    if one.contract.body:
        told["requestBody"] = _request_body(one.contract.body, refs)
    if one.permission is not None:
        # Without any token configured, the machine itself may call without one.
        told["security"] = [{"token": []}] if has_tokens else [{}, {"token": []}]
    return told


def _parameters(one: Operation) -> list[Json]:
    found = [_path_parameter(name) for name in one.path_parameters]
    if one.contract.query:
        found += [_query_parameter(*item) for item in fields_of(one.contract.query).items()]
    return found + [
        {"name": h.name, "in": "header", "description": h.about, "schema": dict(h.schema)}
        for h in one.contract.takes
    ]


def _path_parameter(name: str) -> Json:
    about, schema = PATH_PARAMETERS[name]
    told = {"name": name, "in": "path", "required": True}
    return {**told, "description": about, "schema": schema}


def _query_parameter(name: str, schema: Json) -> Json:
    told = {key: value for key, value in schema.items() if key != "description"}
    about = schema["description"]
    return {"name": name, "in": "query", "description": about, "schema": without_null(told)}


def without_null(schema: Json) -> Json:
    """``schema`` for where null cannot be said."""
    kept = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return kept[0] if len(kept) == 1 else schema


def _request_body(body: Body, refs: dict[Any, Json]) -> Json:
    schema = refs[body.model]
    content = {"application/json": {"schema": schema}}
    if body.many:
        array = {"type": "array", "items": schema, "maxItems": body.many}
        # Before 3.2 there is no keyword for a stream of lines.
        content = {
            "application/json": {"schema": array},
            "application/x-ndjson": {"schema": {"type": "string"}},
        }
    return {"required": body.required, "content": content}


def _responses(one: Operation, refs: dict[Any, Json]) -> Json:
    answers = {str(code): _answer(it, refs) for code, it in one.contract.answers.items()}
    refusals: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for error in one.refuses:
        refusals[error.status].append((error.code, meaning(error)))
    refusals[500].append(INTERNAL)
    return answers | {
        str(status): _refusal(status, codes, refs) for status, codes in sorted(refusals.items())
    }


def meaning(error: type[QueueError]) -> str:
    """What an error code means, in a line."""
    return (error.__doc__ or "").partition("\n")[0].replace("``", "`")


def _answer(answer: Answer, refs: dict[Any, Json]) -> Json:
    told: Json = {
        "description": answer.about,
        "headers": _headers((*answer.headers, *EVERYWHERE)),
    }
    schema = refs[answer.model] if answer.model else answer.schema
    if schema:
        told["content"] = {answer.media_type: {"schema": dict(schema)}}
    return told


def _refusal(status: int, codes: list[tuple[str, str]], refs: dict[Any, Json]) -> Json:
    more = {401: (WWW_AUTHENTICATE,), 429: (RETRY_AFTER,), 503: (RETRY_AFTER,)}.get(status, ())
    example = partial(_example, status)
    return {
        "description": f"{HTTPStatus(status).phrase}: {', '.join(code for code, _ in codes)}",
        "headers": _headers((*more, *EVERYWHERE)),
        "content": {
            "application/problem+json": {
                "schema": refs[Problem],
                "examples": {code: example(code, about) for code, about in codes},
            }
        },
    }


def _example(status: int, code: str, about: str) -> Json:
    value = {
        "type": f"/api/docs/#{code}",
        "title": about,
        "status": status,
        "detail": about,
        "code": code,
        "request_id": "50dbef8c92a4405fb3e365797251ff67",
    }
    return {"summary": about, "value": value}


def _headers(headers: Iterable[Header]) -> Json:
    return {h.name: {"description": h.about, "schema": dict(h.schema)} for h in headers}
