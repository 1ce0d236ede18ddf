"""Short ways to say what the tests of the API say most."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, Response, request, request_finished
from flask.testing import FlaskClient
from pydantic import ValidationError
from werkzeug.test import TestResponse

from queueapp.api.answers import Problem
from queueapp.api.contract import API_VERSION, Operation, operations


class Api:
    """The API as a program on this machine sees it."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def post(self, path: str = "", **options: Any) -> TestResponse:
        return self.client.post(f"/api/jobs{path}", **options)

    def post_raw(self, body: bytes, **options: Any) -> TestResponse:
        return self.post(data=body, content_type="application/json", **options)

    def get(self, path: str = "") -> TestResponse:
        return self.client.get(f"/api/jobs{path}")

    def make(self, **fields: Any) -> dict[str, Any]:
        answer = self.post(json={"kind": "demo.echo", **fields})
        assert answer.status_code == 201, answer.text
        return body(answer)

    def count(self) -> int:
        return len(body(self.get("?limit=500"))["items"])


def body(answer: TestResponse) -> dict[str, Any]:
    assert answer.json is not None, answer.text
    found: dict[str, Any] = answer.json
    return found


def problem(answer: TestResponse) -> tuple[int, str]:
    """Status and code of a refusal, after a look at its form."""
    assert answer.content_type == "application/problem+json", answer.text
    found = body(answer)
    assert {"type", "title", "status", "detail", "code", "request_id"} <= set(found)
    assert found["status"] == answer.status_code
    return answer.status_code, found["code"]


def pointers(answer: TestResponse) -> list[str]:
    return [one["pointer"] for one in body(answer)["errors"]]


@pytest.fixture
def api(client: FlaskClient) -> Api:
    return Api(client)


@pytest.fixture(autouse=True)
def keeps_its_contract() -> Iterator[None]:
    """Every answer of every test here is one that the route has declared."""
    found: list[str] = []

    def look(sender: Flask, response: Response, **_: Any) -> None:
        for one in operations(sender):
            rule = request.url_rule and request.url_rule.rule.replace("<", "{").replace(">", "}")
            method = "GET" if request.method == "HEAD" else request.method
            if (one.method, one.path) == (method, rule):
                found.extend(f"{method} {rule}: {fault}" for fault in breaches(one, response))

    with request_finished.connected_to(look):
        yield
    assert found == []


def breaches(one: Operation, response: Response) -> list[str]:
    """What in an answer its route has not declared."""
    if response.headers.get("Queue-API-Version") != API_VERSION:
        return ["no Queue-API-Version"]
    if response.status_code >= 400:
        return _undeclared_refusal(one, response)
    declared = one.contract.answers.get(response.status_code)
    if declared is None:
        return [f"answers {response.status_code}"]
    # What is streamed is read by the test that asked for it, piece by piece.
    content = b"..." if response.is_streamed else response.get_data()
    if response.mimetype and content and response.mimetype != declared.media_type:
        return [f"answers {response.mimetype}"]
    if declared.model is None or not content:
        return []
    told, wanted = json.loads(response.get_data()), declared.model
    unknown = set(told) - {field.alias or name for name, field in wanted.model_fields.items()}
    return _faults(wanted, response) + [f"has an undeclared {name}" for name in sorted(unknown)]


def _undeclared_refusal(one: Operation, response: Response) -> list[str]:
    told = json.loads(response.get_data())
    known = {(error.status, error.code) for error in one.refuses} | {(500, "internal_error")}
    code = (response.status_code, told["code"])
    # What the server itself refuses; the document says so in words.
    if code not in known and not told["code"].startswith("http_"):
        return [f"refuses with {code}"]
    return _faults(Problem, response)


def _faults(model: Any, response: Response) -> list[str]:
    try:
        model.model_validate_json(response.get_data(), strict=True)
    except ValidationError as error:
        return [f"{one['loc']}: {one['msg']}" for one in error.errors()]
    return []
