"""Short ways to say what the tests of the API say most."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse


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
