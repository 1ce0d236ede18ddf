"""The OpenAPI document: whole, true, and made from the models that check requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from queueapp import errors
from queueapp.api import answers, describe
from queueapp.api.contract import IDEMPOTENCY_KEY, is_ours, operations
from queueapp.api.list_schemas import JobsQuery
from queueapp.api.schemas import JobBody
from tests.api.conftest import body
from tests.live.needs import lacking


@pytest.fixture
def document(client: FlaskClient) -> dict[str, Any]:
    return body(client.get("/api/openapi.json"))


def told(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_route_is_in_the_document_and_nothing_else(
    app: Flask, document: dict[str, Any]
) -> None:
    routes = {
        (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        if is_ours(rule.rule)
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }

    assert {(method, path) for method, path, _ in told(document)} == routes


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    try:
        from openapi_spec_validator import validate
    except ImportError:
        lacking("no openapi-spec-validator (pip install -r requirements-dev.txt)")

    validate(document)


def test_the_document_holds_together(document: dict[str, Any]) -> None:
    """What a validator checks, for where none is installed."""
    assert document["openapi"] == "3.1.0"
    for ref in references(document):
        place = document
        for step in ref.removeprefix("#/").split("/"):
            place = place[step]
    names = [operation["operationId"] for _, _, operation in told(document)]
    assert len(names) == len(set(names))
    for _, path, operation in told(document):
        in_path = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))
        assert operation["summary"]
        assert all(p["description"] for p in operation["parameters"]), path


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_error_code_that_an_answer_can_have_is_in_it(document: dict[str, Any]) -> None:
    codes = {
        code
        for _, _, operation in told(document)
        for answer in operation["responses"].values()
        for code in answer.get("content", {})
        .get("application/problem+json", {})
        .get("examples", ())
    }
    found = [one for one in vars(errors).values() if isinstance(one, type)]
    known = {one.code for one in found if issubclass(one, errors.QueueError)}

    # The first two are not the answer of any route, the last two never an answer.
    assert known - codes == {"not_found", "method_not_allowed", "bad_setting", "queue_error"}
    for code in ("not_found", "method_not_allowed"):
        assert code in document["info"]["description"]


def test_requests_are_told_as_they_are_checked(document: dict[str, Any]) -> None:
    job = document["components"]["schemas"]["JobBody"]
    assert set(job["properties"]) == set(JobBody.model_fields)
    assert job["required"] == ["kind"]
    assert job["additionalProperties"] is False
    priority = job["properties"]["priority"]
    assert (priority["minimum"], priority["maximum"]) == (-32768, 32767)
    assert "default" not in priority

    listing = document["paths"]["/api/jobs"]["get"]
    assert {p["name"] for p in listing["parameters"]} == set(JobsQuery.model_fields)


def test_every_field_is_described(document: dict[str, Any]) -> None:
    bare = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, it in schema.get("properties", {}).items()
        if "description" not in it and name not in ("Count", "BulkCounts", "Health", "Ready")
    ]

    assert bare == []


def test_the_answers_are_told_as_they_are_written() -> None:
    assert set(answers.JobSummary.model_fields) == set(describe.LISTED)
    assert set(answers.Job.model_fields) == set(describe.WHOLE)
    assert set(answers.FeedLine.model_fields) == set(describe.FEED)
    assert set(answers.Event.model_fields) == set(describe.EVENT)


def test_headers_are_told(document: dict[str, Any]) -> None:
    create = document["paths"]["/api/jobs"]["post"]
    assert IDEMPOTENCY_KEY.name in {p["name"] for p in create["parameters"]}
    assert {"Location", "Queue-API-Version"} <= set(create["responses"]["201"]["headers"])
    assert {"Location", "Idempotent-Replayed"} <= set(create["responses"]["200"]["headers"])
    assert "Retry-After" in create["responses"]["503"]["headers"]


@pytest.mark.parametrize(
    "path", ["/api/jobs", "/api/nothing", "/api", "/healthz", "/readyz", "/metrics"]
)
def test_every_answer_says_the_version(client: FlaskClient, path: str) -> None:
    assert client.get(path).headers["Queue-API-Version"] == "1"


def test_pages_of_the_console_say_no_version(client: FlaskClient) -> None:
    assert "Queue-API-Version" not in client.get("/").headers


def test_a_document_that_is_still_the_same_is_not_sent_again(client: FlaskClient) -> None:
    first = client.get("/api/openapi.json")

    again = client.get("/api/openapi.json", headers={"If-None-Match": first.headers["ETag"]})

    assert (again.status_code, again.data) == (304, b"")
    assert client.head("/api/openapi.json").status_code == 200


def test_credentials_are_asked_for_where_they_are_needed(app: Flask) -> None:
    for one in operations(app):
        assert (one.permission is None) == (one.who == "Anybody.")
