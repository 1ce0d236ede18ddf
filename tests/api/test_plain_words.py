"""Refusals are in one style, name the way out, and name nothing that is not there."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from queueapp.handlers import registry
from tests.api.conftest import Api, body, problem

LEASE = {"id": 1, "token": "0b2d0ac6-0a5c-4c4e-9c2f-3a4d5e6f7a8b"}
WRONG: list[tuple[str, Any]] = [
    ("/api/jobs", {"kind": 5, "payload": [], "priority": "1", "delay": "x", "bogus": 1}),
    ("/api/jobs", {"kind": "demo.echo", "idempotency_key": "x" * 201, "available_at": 5}),
    ("/api/jobs", {"kind": "demo.echo", "idempotency_key": ""}),
    ("/api/jobs", {"kind": "demo.echo", "idempotency_key": "\ud800"}),
    ("/api/jobs", {"kind": "demo.sleep", "payload": {"seconds": "5"}}),
    ("/api/jobs", {"kind": "demo.sleep", "payload": {"seconds": None}}),
    ("/api/jobs/1/cancel", {"reason": 5}),
    ("/api/jobs/1/cancel", {"reason": "x" * 1001}),
    ("/api/leases", {"kinds": "a", "max": 0, "lease": 0, "wait": True}),
    ("/api/leases", {"kinds": ["a"] * 101}),
    ("/api/leases", {"kinds": ["NO", 5]}),
    ("/api/leases/renew", {"items": {}}),
    ("/api/leases/renew", {"items": [LEASE] * 501}),
    ("/api/leases/settle", {"items": [3, {**LEASE, "verb": 1}, LEASE]}),
    ("/api/leases/settle", {"items": [{**LEASE, "verb": "fail", "permanent": "no"}]}),
    ("/api/operations", {"verb": "x", "filter": {"status": ["x"], "priority": "1"}, "reason": 1}),
    ("/api/operations", {"verb": "retry", "filter": {}, "reason": ""}),
    ("/api/jobs?limit=x", None),
    ("/api/jobs?due=perhaps&status=x&priority_min=x&created_from=x&count=1", None),
    ("/api/jobs/1/events?after=x&limit=0", None),
    ("/api/events?after=x&limit=x", None),
]


@pytest.mark.parametrize(("path", "sent"), WRONG, ids=lambda value: str(value)[:50])
def test_what_is_wrong_is_said_plainly(client: FlaskClient, path: str, sent: Any) -> None:
    answer = client.get(path) if sent is None else client.post(path, json=sent)

    assert problem(answer)[0] in (400, 422)
    for one in body(answer)["errors"]:
        said = one["detail"]
        assert said[0].islower() or said[0].isdigit(), said
        for word in ("Input", "should", "valid ", "String", "List", "Value error"):
            assert word not in said, said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("demo.ecoh", "; did you mean demo.echo? GET /api/kinds lists those that may be created"),
        ("demo.eco", "; did you mean demo.echo? GET"),
        ("zzz", "no handler here runs zzz; GET /api/kinds lists those that may be created"),
    ],
)
def test_an_unknown_kind_names_the_way_out(api: Api, kind: str, said: str) -> None:
    answer = api.post(json={"kind": kind})

    assert problem(answer) == (422, "unknown_kind")
    assert said in body(answer)["detail"]
    [first] = body(answer)["errors"]
    assert (first["pointer"], "/api/kinds" in first["detail"]) == ("/kind", True)


def test_a_kind_that_nobody_knows_is_not_compared_for_ever(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {f"{number:05}{'z' * 95}": registry.find("demo.echo") for number in range(20_000)}
    monkeypatch.setattr(registry, "_handlers", {**registry._handlers, **known})
    compared = []

    def count(_kind: str, names: list[str], **_: Any) -> list[str]:
        compared.extend(names)
        return []

    monkeypatch.setattr("queueapp.api.known_kinds.get_close_matches", count)

    assert problem(api.post(json={"kind": "demo.none"})) == (422, "unknown_kind")
    assert 0 < len(compared) <= 500


def test_a_kind_in_an_address_names_the_way_out(client: FlaskClient) -> None:
    answer = client.get("/api/kinds/demo.ecoh")

    assert problem(answer) == (404, "kind_not_found")
    assert "did you mean demo.echo?" in body(answer)["detail"]


def test_a_conflict_within_one_request_names_its_place_and_no_job(api: Api) -> None:
    kept = api.make(idempotency_key="kept")
    echo = {"kind": "demo.echo"}

    answer = api.post(
        "/bulk",
        json=[
            {**echo, "idempotency_key": "twice"},
            {**echo, "idempotency_key": "twice", "priority": 5},
            {**echo, "idempotency_key": "kept", "priority": 5},
        ],
    )

    assert problem(answer) == (409, "idempotency_conflict")
    inner, outer = body(answer)["errors"]
    assert (inner["pointer"], inner["fields"]) == ("/1/idempotency_key", ["priority"])
    assert inner["detail"] == "is also the key of /0, asked for with a different priority"
    assert "job_id" not in inner
    assert (outer["pointer"], outer["job_id"]) == ("/2/idempotency_key", kept["id"])
    # The first is no job at all: none is named at the top.
    assert "job_id" not in body(answer)
    assert api.count() == 1


@pytest.mark.parametrize("key", ["a,b", "a, a", ","])
def test_a_header_key_with_a_comma_may_be_two_and_is_refused(api: Api, key: str) -> None:
    refused = api.post(json={"kind": "demo.echo"}, headers={"Idempotency-Key": key})
    taken = api.post(json={"kind": "demo.echo", "idempotency_key": key})

    assert problem(refused) == (400, "bad_request")
    assert "field idempotency_key" in body(refused)["detail"]
    assert taken.status_code == 201
