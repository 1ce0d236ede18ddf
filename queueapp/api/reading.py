"""From the bytes of a request to checked values; every refusal names its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from flask import request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from werkzeug.exceptions import ClientDisconnected, HTTPException, RequestEntityTooLarge

from queueapp.api.invalid import invalid, invalid_at, sentence_of
from queueapp.api.schemas import JobBody, NoBody, ReasonBody, payload_parameters
from queueapp.api.strict_json import parse
from queueapp.auth import current_principal
from queueapp.auth.limits import NONE, Limits
from queueapp.errors import (
    BadRequest,
    InvalidJob,
    JobNotFound,
    NotJson,
    QueueError,
    RequestTimeout,
)
from queueapp.handlers import EnqueueRequest
from queueapp.handlers.problems import MOST_PROBLEMS, Problem, first_of, place_in, problem
from queueapp.handlers.request import LONGEST_KEY, request_problems
from queueapp.handlers.wording import plain
from queueapp.jobs.failure import printable

Query = TypeVar("Query", bound=BaseModel)

_REPEATABLE = ("status", "fields", "payload")
_VERBS = "succeed, fail, defer, release"
_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)


def read_id(text: str) -> int:
    """The job id in an address; whatever cannot be one is a job that does not exist."""
    if not _ID.fullmatch(text) or int(text) >= 2**63:
        raise JobNotFound(f"there is no job '{printable(text[:50])}': ids are whole numbers from 1")
    return int(text)


def read_query(model: type[Query]) -> Query:
    """Check the query string. Raises BadRequest for an unknown, repeated or bad parameter."""
    _refuse_other_bytes()
    given = dict(request.args.lists())
    fields = payload_parameters(given) if "payload" in model.model_fields else []
    for name, values in given.items():
        if len(values) > 1 and name not in _REPEATABLE:
            raise _bad_query([{"parameter": printable(name), "detail": "given more than once"}])
    try:
        sent: dict[str, Any] = {name: ",".join(values) for name, values in given.items()}
        return model.model_validate(sent | ({"payload": fields} if fields else {}))
    except ValidationError as error:
        errors = [_parameter_problem(one, model) for one in _errors(error)]
        raise _bad_query(errors) from None


def _refuse_other_bytes() -> None:
    """Refuse what is not UTF-8: with a mark in its place it would only find nothing."""
    try:
        unquote_to_bytes(request.query_string).decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest("the query is not UTF-8, percent-encoded") from None


def _parameter_problem(found: ErrorDetails, model: type[BaseModel]) -> Problem:
    name = str(found["loc"][0])
    detail = _detail(found) if name in model.model_fields else "unknown parameter"
    return {"parameter": printable(name[:100]), "detail": detail}


def _bad_query(errors: list[Problem]) -> BadRequest:
    first = errors[0]
    return BadRequest(f"{first['parameter']}: {first['detail']}", errors=errors)


def read_job() -> EnqueueRequest:
    """The job that the body and the header ``Idempotency-Key`` ask for."""
    return job_request(_with_key(read_body()), current_principal().limits)


def job_request(body: Any, limits: Limits = NONE) -> EnqueueRequest:
    """The job that ``body`` asks for. Raises InvalidJob that lists the first problems.

    They tell nothing of a kind that ``limits`` do not allow; whether they do is not checked here.
    """
    body, more = _without_many_unknown(body)
    try:
        checked = JobBody.model_validate(body)
    except ValidationError as error:
        problems = first_of(_all_problems(error, body, limits), more)
        said = f"the job is not valid: {sentence_of(problems)}"
        raise InvalidJob(said, errors=problems) from None
    return _enqueue_request({name: getattr(checked, name) for name in checked.model_fields_set})


def _without_many_unknown(body: Any) -> tuple[Any, int]:
    """``body`` with no more unknown fields than can be told, and how many were left out.

    Of hundreds of thousands pydantic would make an error each.
    """
    if not isinstance(body, dict) or len(body) <= MOST_PROBLEMS:
        return body, 0
    unknown = [name for name in body if name not in JobBody.model_fields]
    left_out = set(unknown[MOST_PROBLEMS:])
    kept = {name: value for name, value in body.items() if name not in left_out}
    return kept, len(left_out)


def read_reason() -> str | None:
    """The reason in the optional body of a move."""
    reason: str | None = read_optional(ReasonBody).reason
    return reason


def read_key() -> str | None:
    """The header ``Idempotency-Key`` of a request that has no field for it."""
    header = request.headers.get("Idempotency-Key")
    if header is None:
        return None
    key = _header_text(header)
    if not key.strip() or len(key) > LONGEST_KEY or "," in key:
        raise BadRequest(
            f"the header Idempotency-Key is 1 to {LONGEST_KEY} characters without a comma, sent"
            " once"
        )
    return key


def read_nothing() -> None:
    """Refuse a body that asks for anything, rather than do without it what was asked."""
    read_optional(NoBody)


def read_optional(model: type[Query]) -> Query:
    """The body as ``model``, empty without one. Raises InvalidRequest as ``read_model`` does."""
    body = read_body() if _bytes() else {}
    try:
        return model.model_validate(body)
    except ValidationError as error:
        problems = _shape_problems(error)
        raise invalid(problems) from None


def read_model(model: type[Query], *, any_number: bool = False) -> Query:
    """The body as ``model``. Raises InvalidRequest that lists the first problems.

    ``any_number``: numbers of more digits than Python reads are NaN instead of a refusal.
    """
    body = parse(read_json(), any_number=any_number)
    _refuse_crowds(body)
    try:
        return model.model_validate(body)
    except ValidationError as error:
        found = first_of([_problem_in(one, body) for one in _errors(error)])
        raise invalid(found) from None


def _refuse_crowds(body: Any) -> None:
    """Refuse objects with more names than any has here: pydantic would make an error of each."""
    items = body.get("items") if isinstance(body, dict) else None
    objects = [((), body), *enumerate(items[:MOST_PROBLEMS] if isinstance(items, list) else [])]
    for place, value in objects:
        if isinstance(value, dict) and len(value) > MOST_PROBLEMS:
            at = ("items", place) if isinstance(place, int) else ()
            raise invalid_at(at, f"{len(value)} fields, of which most are unknown")


def _problem_in(found: ErrorDetails, body: Any) -> Problem:
    place, kind = tuple(place_in(found, body)), found["type"]
    if kind.startswith("union_tag"):
        missing = kind == "union_tag_not_found"
        return problem((*place, "verb"), "required" if missing else f"must be one of {_VERBS}")
    return problem(place, _detail(found))


def read_body() -> Any:
    """The value in the body, which must say that it is JSON."""
    return parse(read_json())


def read_json() -> bytes:
    """The body, which must say that it is JSON."""
    if request.mimetype != "application/json":
        raise NotJson("send the header Content-Type: application/json")
    refuse_encoded()
    raw = _bytes()
    if not raw:
        raise BadRequest("the body is empty; JSON is expected")
    return raw


def refuse_encoded() -> None:
    """Raise NotJson for a body that would have to be unpacked: it may be of any size then."""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise NotJson("send the body as it is, without a Content-Encoding")


def _bytes() -> bytes:
    with whole_chunks():
        raw = request.get_data(cache=True)
    refuse_part(len(raw))
    # A body sent in chunks, without a length, ends at the limit without a word.
    if request.content_length is None and len(raw) >= (request.max_content_length or len(raw) + 1):
        raise RequestEntityTooLarge
    return raw


def refuse_part(met: int) -> None:
    """Raise BadRequest where the body has ended before its length: servers hand over the part."""
    if request.content_length is not None and met < request.content_length:
        raise BadRequest(f"the body breaks off: {met} bytes of {request.content_length} have come")


@contextmanager
def whole_chunks() -> Iterator[None]:
    """Refuse a body that breaks off: servers raise errors of their own over malformed chunks."""
    try:
        yield
    except ClientDisconnected as error:
        if isinstance(error.__context__, TimeoutError):
            raise RequestTimeout("the body comes too slowly; send it faster") from None
        raise BadRequest("the body breaks off before its end") from None
    except (HTTPException, QueueError):
        raise
    except TimeoutError:
        raise RequestTimeout("the body comes too slowly; send it faster") from None
    except Exception as error:
        raise BadRequest("the body cannot be read: its chunks are malformed") from error


def _with_key(body: Any) -> Any:
    header = request.headers.get("Idempotency-Key")
    if header is None or not isinstance(body, dict):
        return body
    if "," in header:
        # Servers and proxies join a header that was sent twice, and hand over another key.
        raise BadRequest(
            "the header Idempotency-Key was sent twice, or has a comma: a key with a comma goes"
            " into the field idempotency_key"
        )
    key = _header_text(header)
    if body.get("idempotency_key", key) != key:
        raise BadRequest("the header Idempotency-Key and the field idempotency_key differ")
    return {**body, "idempotency_key": key}


def _header_text(value: str) -> str:
    try:
        # WSGI hands over the bytes of a header as Latin-1.
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise BadRequest("the header Idempotency-Key is not UTF-8") from None


def _enqueue_request(sent: dict[str, Any]) -> EnqueueRequest:
    names = {name: "key" if name == "idempotency_key" else name for name in sent}
    return EnqueueRequest(**{names[name]: value for name, value in sent.items()})


def _all_problems(error: ValidationError, body: Any, limits: Limits) -> list[Problem]:
    """What is wrong with the form, and what the queue itself would say about the other fields."""
    found = {one["pointer"]: one for one in _shape_problems(error)}
    if not isinstance(body, dict):
        return list(found.values())
    known = {name: body[name] for name in JobBody.model_fields if name in body}
    known.pop("idempotency_key", None)
    if isinstance(kind := body.get("kind"), str) and not limits.allow(kind):
        known = {name: value for name, value in known.items() if name not in ("kind", "payload")}
    for one in request_problems(EnqueueRequest(**{"kind": None, **known})):
        if one["pointer"] != "/kind" or "kind" in known:
            found[one["pointer"]] = one
    return list(found.values())


def _shape_problems(error: ValidationError) -> list[Problem]:
    return [problem(one["loc"], _detail(one)) for one in _errors(error)]


def _errors(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _detail(found: ErrorDetails) -> str:
    if not found["loc"]:
        return "must be an object"
    return plain(found)
