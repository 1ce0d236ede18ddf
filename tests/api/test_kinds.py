"""The kinds that may be created, each with what its payload must be."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from flask.testing import FlaskClient

from queueapp import handlers
from queueapp.handlers import Policy, configure, registry
from tests.api.conftest import Api, body, problem


def test_every_kind_is_listed_with_its_payload(client: FlaskClient) -> None:
    items = body(client.get("/api/kinds"))["items"]

    assert [one["kind"] for one in items] == [one.kind for one in handlers.kinds()]
    [sleep] = [one for one in items if one["kind"] == "demo.sleep"]
    assert sleep["payload"]["properties"]["seconds"]["maximum"] == 86400
    assert sleep["payload"]["additionalProperties"] is False


def test_a_kind_says_how_it_is_tried(client: FlaskClient) -> None:
    webhook = body(client.get("/api/kinds/http.request"))
    echo = body(client.get("/api/kinds/demo.echo"))

    assert (webhook["max_attempts"], webhook["timeout"]) == (12, 180)
    # What the settings say where the handler says nothing.
    assert (echo["max_attempts"], echo["timeout"]) == (5, 3600)
    assert webhook["about"] == "Send an HTTP request: deliver a webhook."
    assert webhook["external"] is False


def test_a_kind_says_who_answers_for_it_and_where_it_is_described(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_handlers", dict(registry._handlers))
    told = {"owner": "team <mail>", "docs": "https://wiki.example/mail?a=1&b=2"}
    handlers.handler("mail.send", owner=told["owner"], docs=told["docs"])(lambda: None)

    kind, echo = (body(client.get(f"/api/kinds/{name}")) for name in ("mail.send", "demo.echo"))

    assert {name: kind[name] for name in told} == told
    assert (echo["owner"], echo["docs"]) == (None, None)


def test_a_job_gets_what_its_kind_says(api: Api, client: FlaskClient) -> None:
    job = api.make(kind="http.request", payload={"url": "https://example.com/"})
    kind = body(client.get("/api/kinds/http.request"))

    assert (job["max_attempts"], job["timeout"]) == (kind["max_attempts"], kind["timeout"])


def test_a_kind_of_other_programs_takes_any_object(app: Flask, client: FlaskClient) -> None:
    configure(Policy(external_kinds=("mail.send",)))

    told = body(client.get("/api/kinds/mail.send"))

    assert (told["payload"], told["external"]) == ({"type": "object"}, True)
    assert "mail.send" in {one["kind"] for one in body(client.get("/api/kinds"))["items"]}


def test_no_such_kind(client: FlaskClient) -> None:
    assert problem(client.get("/api/kinds/no.such")) == (404, "kind_not_found")
    assert problem(client.get("/api/kinds/%00")) == (404, "kind_not_found")


def test_a_kind_that_is_still_the_same_is_not_sent_again(app: Flask, client: FlaskClient) -> None:
    for path in ("/api/kinds", "/api/kinds/demo.echo"):
        mark = client.get(path).headers["ETag"]
        assert re.fullmatch('"[0-9a-f]{20}"', mark)

        again = client.get(path, headers={"If-None-Match": mark})
        assert (again.status_code, again.data) == (304, b"")
        configure(Policy(max_attempts=7, external_kinds=("mail.send",)))
        assert client.get(path, headers={"If-None-Match": mark}).status_code == 200
        configure(Policy())
