"""What a token may do within its role: refused with the limit and the place, nothing written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.auth.tokens import entry_of
from tests.api.conftest import body, pointers, problem
from tests.applications import application
from tests.factories import make_job

LIMITS = {
    "shop": ("producer", "kinds=demo.echo,demo.sleep", "priority=5", "delay=1h"),
    "resizer": ("worker", "kinds=demo.echo"),
    "ops": ("admin",),
}
BEYOND = (403, "beyond_limit")


@pytest.fixture
def client(database_url: str) -> Iterator[FlaskClient]:
    entries = [entry_of(f"{name}-t", name, role, more) for name, (role, *more) in LIMITS.items()]
    with application(database_url, QUEUE_TOKENS=" ".join(entries)) as app:
        yield app.test_client()


def by(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-t"}


def asked(fields: dict[str, Any]) -> dict[str, Any]:
    """A job with these fields; an instant is told as how far ahead of now it is."""
    now = datetime.now(UTC)
    return {"kind": "demo.echo"} | {
        name: (now + value).isoformat() if isinstance(value, timedelta) else value
        for name, value in fields.items()
    }


def count(client: FlaskClient) -> int:
    return len(body(client.get("/api/jobs", headers=by("ops")))["items"])


@pytest.mark.parametrize(
    ("fields", "limit", "places"),
    [
        ({"kind": "demo.fail"}, "kinds", ["/kind"]),
        ({"kind": "no.such.kind"}, "kinds", ["/kind"]),
        ({"priority": 6}, "priority", ["/priority"]),
        ({"delay": 3601}, "delay", ["/delay"]),
        ({"available_at": timedelta(hours=1.1)}, "delay", ["/available_at"]),
        (
            {"kind": "demo.fail", "priority": 6, "delay": 1e5},
            "kinds", ["/kind", "/priority", "/delay"],
        ),
    ],
    ids=str,
)  # fmt: skip
def test_a_job_beyond_a_limit_is_refused_with_limit_and_place(
    client: FlaskClient, fields: dict[str, Any], limit: str, places: list[str]
) -> None:
    job = asked(fields)
    answer = client.post("/api/jobs", json=job, headers=by("shop"))

    assert problem(answer) == BEYOND
    assert (body(answer)["limit"], pointers(answer)) == (limit, places)
    assert f"its limit {limit}" in body(answer)["detail"]
    assert count(client) == 0
    for name, wanted in (("atomic=true", BEYOND[0]), ("atomic=false", 200)):
        bulk = client.post(
            f"/api/jobs/bulk?{name}", json=[{"kind": "demo.echo"}, job], headers=by("shop")
        )
        assert bulk.status_code == wanted, bulk.text
    assert count(client) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "demo.sleep", "priority": 5, "delay": 3600},
        {"priority": -100},
        {"available_at": timedelta(minutes=59)},
        {"available_at": timedelta(days=-1)},
    ],
    ids=str,
)
def test_a_job_within_the_limits_is_created(client: FlaskClient, fields: dict[str, Any]) -> None:
    answer = client.post("/api/jobs", json=asked(fields), headers=by("shop"))

    assert answer.status_code == 201, answer.text


def test_what_is_no_job_at_all_is_invalid_before_it_is_beyond(client: FlaskClient) -> None:
    for fields in ({"priority": "6"}, {"delay": True}, {"available_at": "tomorrow"}):
        answer = client.post("/api/jobs", json={"kind": "demo.echo", **fields}, headers=by("shop"))
        assert problem(answer) == (422, "invalid_job"), fields


def test_a_bulk_names_the_place_of_each_job_beyond(client: FlaskClient) -> None:
    jobs = [{"kind": "demo.echo"}, {"kind": "demo.fail"}, {"kind": "demo.echo", "priority": 9}]

    refused = client.post("/api/jobs/bulk", json=jobs, headers=by("shop"))
    lines = "\n".join(map(json.dumps, jobs))
    each = client.post(
        "/api/jobs/bulk?atomic=false",
        data=lines,
        content_type="application/x-ndjson",
        headers=by("shop"),
    )

    assert problem(refused) == BEYOND
    assert pointers(refused) == ["/1/kind", "/2/priority"]
    assert body(each)["counts"] == {"new": 1, "replay": 0, "conflict": 0, "invalid": 2}
    assert [one.get("problem", {}).get("code") for one in body(each)["items"]] == [
        None,
        "beyond_limit",
        "beyond_limit",
    ]


def test_a_bulk_that_is_also_invalid_says_so(client: FlaskClient) -> None:
    jobs = [{"kind": "demo.fail"}, {"kind": 5}]

    answer = client.post("/api/jobs/bulk", json=jobs, headers=by("shop"))

    assert problem(answer) == (422, "invalid_job")
    assert pointers(answer) == ["/0/kind", "/1/kind"]


def test_a_worker_leases_its_kinds_only(client: FlaskClient, session: Session) -> None:
    make_job(session)
    session.commit()

    other = client.post(
        "/api/leases", json={"kinds": ["demo.echo", "demo.sleep"]}, headers=by("resizer")
    )
    own = client.post("/api/leases", json={"kinds": ["demo.echo"]}, headers=by("resizer"))

    assert problem(other) == BEYOND
    assert (body(other)["limit"], pointers(other)) == ("kinds", ["/kinds/1"])
    assert [one["kind"] for one in body(own)["items"]] == ["demo.echo"]


@pytest.mark.parametrize(
    ("name", "kinds"), [("shop", ["demo.echo", "demo.sleep"]), ("resizer", ["demo.echo"])]
)
def test_a_token_learns_of_its_own_kinds_only(
    client: FlaskClient, name: str, kinds: list[str]
) -> None:
    listed = body(client.get("/api/kinds", headers=by(name)))["items"]
    other = client.get("/api/kinds/demo.fail", headers=by(name))

    assert [one["kind"] for one in listed] == kinds
    assert problem(other) == (404, "kind_not_found")
    assert client.get("/api/kinds/demo.fail", headers=by("ops")).status_code == 200


def test_what_a_token_may_not_create_it_does_not_learn_about(client: FlaskClient) -> None:
    bad = {"priority": "high", "payload": {"no": "such field"}}
    kinds = ("demo.fail", "no.such.kind")

    told = [
        client.post("/api/jobs", json={"kind": kind, **bad}, headers=by("shop")) for kind in kinds
    ]
    many = client.post(
        "/api/jobs/bulk?atomic=false", json=[{"kind": kind, **bad} for kind in kinds],
        headers=by("shop"),
    )  # fmt: skip
    own = client.post("/api/jobs", json={"kind": "demo.sleep", **bad}, headers=by("shop"))

    assert [pointers(answer) for answer in told] == [["/priority"]] * 2
    assert [body(answer)["errors"] for answer in told] == [body(told[0])["errors"]] * 2
    items = body(many)["items"]
    assert items[0] == items[1]
    assert "/payload/no" in pointers(own)
