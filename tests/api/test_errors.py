"""The form of every refusal, the headers of every answer, and what never reaches the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from pydantic import BaseModel

from queueapp.auth import open_to_all
from queueapp.errors import IllegalMove
from queueapp.extensions import db
from tests.api.conftest import body, problem

SECRET = "hunter2-in-the-payload"


@pytest.fixture
def app(fresh_app: Flask) -> Flask:
    """These tests add routes to it and break it."""
    return fresh_app


def test_a_problem_has_all_members(client: FlaskClient) -> None:
    answer = client.get("/api/jobs/7")

    assert body(answer) == {
        "type": "/api/docs/#job_not_found",
        "title": "No such job",
        "status": 404,
        "detail": "there is no job 7",
        "code": "job_not_found",
        "job_id": 7,
        "request_id": answer.headers["X-Request-Id"],
    }


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/nothing", "/api/../x"])
def test_the_routers_refusals_under_api_are_json(client: FlaskClient, path: str) -> None:
    assert problem(client.get(path)) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/api/jobs"), ("PUT", "/api/jobs/1"), ("POST", "/api/stats"), ("POST", "/healthz")],
)
def test_a_wrong_method_names_the_right_ones(client: FlaskClient, method: str, path: str) -> None:
    answer = client.open(path, method=method)

    assert problem(answer) == (405, "method_not_allowed")
    assert "GET" in answer.headers["Allow"]


def test_elsewhere_a_refusal_is_a_page(client: FlaskClient) -> None:
    answer = client.get("/<b>nothing")

    assert (answer.status_code, answer.mimetype) == (404, "text/html")
    assert "<b>" not in answer.text.replace("<body>", "")


@pytest.mark.parametrize(
    ("headers", "is_fragment"),
    [
        ({}, False),
        ({"HX-Request": "true"}, True),
        ({"HX-Request": "true", "HX-Request-Type": "partial"}, True),
        ({"HX-Request": "true", "HX-Request-Type": "full"}, False),
    ],
    ids=str,
)
def test_a_fragment_is_answered_with_a_fragment(
    client: FlaskClient, headers: dict[str, str], is_fragment: bool
) -> None:
    answer = client.get("/nothing", headers=headers)

    assert answer.status_code == 404
    assert ("<html" not in answer.text) is is_fragment


def test_without_templates_the_text_is_escaped(
    app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.jinja_env, "loader", None)
    from jinja2 import DictLoader

    app.jinja_env.loader = DictLoader({})
    app.jinja_env.cache = None

    answer = client.get("/<script>")

    assert answer.text == '<p role="alert">No such address: there is nothing at /&lt;script&gt;</p>'


def test_every_answer_carries_the_security_headers(client: FlaskClient) -> None:
    for path in ("/api/jobs", "/api/nothing", "/nothing", "/healthz"):
        headers = client.get(path).headers
        assert headers["Content-Security-Policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Request-Id"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [("abc-123.X_9", True), ("", False), ("a b", False), ("x" * 65, False), ("a\x1b[31m", False)],
)
def test_a_request_id_is_kept_if_it_is_fit_for_a_log(
    client: FlaskClient, given: str, kept: bool
) -> None:
    answer = client.get("/healthz", environ_overrides={"HTTP_X_REQUEST_ID": given})

    assert (answer.headers["X-Request-Id"] == given) is kept


class Strict(BaseModel):
    number: int


def sql_fault() -> str:
    db.session.execute(sa.text("SELECT CAST(:secret AS integer)"), {"secret": SECRET})
    return "unreachable"


def validation_fault() -> str:
    return str(Strict.model_validate({"number": SECRET}))


def chained_fault() -> str:
    try:
        return sql_fault()
    except sa.exc.DBAPIError as error:
        raise RuntimeError("while saving") from error


@pytest.mark.postgresql("what its errors repeat")
@pytest.mark.parametrize("view", [sql_fault, validation_fault, chained_fault])
@pytest.mark.parametrize("path", ["/api/boom", "/boom"])
def test_a_fault_of_ours_tells_where_but_never_with_what(
    app: Flask,
    client: FlaskClient,
    caplog: pytest.LogCaptureFixture,
    view: Callable[[], str],
    path: str,
) -> None:
    app.add_url_rule(path, view_func=open_to_all(view))

    answer = client.get(path, query_string={"token": "in-the-query"})

    assert answer.status_code == 500
    assert SECRET not in answer.text + caplog.text
    assert "in-the-query" not in caplog.text
    assert answer.headers["X-Request-Id"] in caplog.text
    assert f"GET {path} failed" in caplog.text
    assert f"in {view.__name__}" in caplog.text
    if path.startswith("/api"):
        assert problem(answer) == (500, "internal_error")


def test_a_deliberate_failure_shows_its_facts(app: Flask, client: FlaskClient) -> None:
    def refuse() -> str:
        raise IllegalMove("job 7 is succeeded", job_id=7, job_status="succeeded", code="spoof")

    app.add_url_rule("/api/refuse", view_func=open_to_all(refuse))

    answer = client.get("/api/refuse")

    assert problem(answer) == (409, "illegal_move")
    assert (body(answer)["job_id"], body(answer)["job_status"]) == (7, "succeeded")


def test_a_redirect_is_no_error(app: Flask, client: FlaskClient) -> None:
    from werkzeug.routing import RequestRedirect

    def move() -> str:
        raise RequestRedirect("/elsewhere")

    app.add_url_rule("/moved", view_func=open_to_all(move))

    assert client.get("/moved").headers["Location"] == "/elsewhere"
