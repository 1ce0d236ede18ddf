"""Each limit of the API: what reaches it is taken, one more is refused, and the place is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from queueapp.api import job_end
from queueapp.handlers import Policy, configure
from queueapp.handlers.context import LONGEST_DELAY_S as TEN_YEARS_S
from tests.api.conftest import body, problem

KIB, MIB = 1024, 1024 * 1024
ECHO = {"kind": "demo.echo"}
LEASES = [{"id": n + 1, "token": f"0b2d0ac6-0a5c-4c4e-9c2f-{n:012x}"} for n in range(501)]


@dataclass(frozen=True)
class Limit:
    """``edge`` is the most that is taken; ``above`` is one more, of which ``place`` is named."""

    name: str
    path: str
    edge: Any
    above: Any
    status: int = 422
    place: str | None = None
    # Of a request that is well formed and asks for what is not there.
    taken: tuple[int, ...] = (200, 201)
    content: str = "application/json"


def job(name: str, edge: Any, above: Any, place: str | None = None) -> Limit:
    place = place or f"/{name}"
    return Limit(name, "/api/jobs", {**ECHO, name: edge}, {**ECHO, name: above}, place=place)


def query(path: str, name: str, edge: Any, above: Any, **more: Any) -> Limit:
    wanted = f"{path}{'&' if '?' in path else '?'}{name}="
    place = more.pop("place", name)
    status = more.pop("status", 400)
    return Limit(f"{path} {name}", "", f"{wanted}{edge}", f"{wanted}{above}", status, place, **more)


def padded(value: Any, size: int) -> bytes:
    return json.dumps(value).encode().ljust(size)


def message(length: int) -> dict[str, str]:
    return {"message": "x" * (length - len('{"message":""}'))}


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"message": value}


def ahead(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


LIMITS = (
    # Bodies
    Limit("body", "/api/jobs", padded(ECHO, MIB), padded(ECHO, MIB + 1), 413),
    Limit("bulk body", "/api/jobs/bulk", padded([ECHO], 16 * MIB), padded([ECHO], 16 * MIB + 1),
          413),
    Limit("bulk lines", "/api/jobs/bulk", padded(ECHO, MIB), padded(ECHO, MIB + 1), 422, "/0",
          content="application/x-ndjson"),
    Limit("bulk jobs", "/api/jobs/bulk", [ECHO] * 5000, [ECHO] * 5001, place="/5000"),
    # A job
    job("payload", message(256 * KIB), message(256 * KIB + 1)),
    job("payload", nested(32), nested(33), "/payload/message" + "/0" * 31),
    job("kind", "k" * 100, "k" * 101),
    job("idempotency_key", "é" * 200, "é" * 201),
    job("priority", 32_767, 32_768),
    job("priority", -32_768, -32_769),
    job("max_attempts", 10_000, 10_001),
    job("max_attempts", 1, 0),
    job("timeout", 2**31 - 1, 2**31),
    job("timeout", 0, -1),
    job("delay", TEN_YEARS_S, TEN_YEARS_S + 1),
    job("delay", 0, -0.001),
    job("available_at", ahead(TEN_YEARS_S - 60), ahead(TEN_YEARS_S + 3600)),
    query("/api/jobs", "wait", 20, 21),
    # Moves
    Limit("reason", "/api/jobs/1/hold", {"reason": "é" * 1000}, {"reason": "é" * 1001},
          place="/reason"),
    Limit("reschedule", "/api/jobs/1/reschedule", {"delay": TEN_YEARS_S},
          {"delay": TEN_YEARS_S + 1}, place="/delay"),
    Limit("operation", "/api/operations",
          {"verb": "retry", "filter": {"kind": "k" * 200}, "reason": "r" * 1000},
          {"verb": "retry", "filter": {"kind": "k" * 201}, "reason": "r"}, place="/filter/kind"),
    # Leases
    Limit("kinds", "/api/leases", {"kinds": [f"a{n}" for n in range(100)]},
          {"kinds": [f"a{n}" for n in range(101)]}, place="/kinds"),
    Limit("max", "/api/leases", {"kinds": ["a"], "max": 100}, {"kinds": ["a"], "max": 101},
          place="/max"),
    Limit("lease", "/api/leases", {"kinds": ["a"], "lease": 86_400},
          {"kinds": ["a"], "lease": 86_401}, place="/lease"),
    Limit("lease", "/api/leases", {"kinds": ["a"], "lease": 1}, {"kinds": ["a"], "lease": 0.9},
          place="/lease"),
    # All of them are lost: what was asked for is understood.
    Limit("renew", "/api/leases/renew", {"items": LEASES[:500]}, {"items": LEASES},
          place="/items", taken=(409,)),
    Limit("settle", "/api/leases/settle",
          {"items": [{**one, "verb": "succeed"} for one in LEASES[:500]]},
          {"items": [{**one, "verb": "succeed"} for one in LEASES]}, place="/items", taken=(409,)),
    Limit("percent", "/api/leases/progress", {"items": [{**LEASES[7], "percent": 100}]},
          {"items": [{**LEASES[7], "percent": 101}]}, place="/items/0/percent", taken=(409,)),
    # Reading
    query("/api/jobs", "limit", 500, 501),
    query("/api/jobs", "limit", 1, 0),
    query("/api/jobs?fields=id,payload", "limit", 50, 51, status=422),
    query("/api/jobs", "kind", "k" * 200, "k" * 201),
    query("/api/jobs", "idempotency_key", "k" * 200, "k" * 201),
    query("/api/jobs", "priority_max", 32_767, 32_768),
    query("/api/jobs", "before", 2**63 - 1, 2**63),
    query("/api/jobs", "created_from", "9998-12-31T23:59:59Z", "9999-01-01T00:00:00Z"),
    query("/api/jobs", "created_from", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z"),
    query("/api/jobs/1/events", "limit", 200, 201),
    query("/api/events", "limit", 200, 201),
)  # fmt: skip


@pytest.fixture
def send(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> Callable[[Limit, Any], Any]:
    """Against a queue that takes any kind and has one job; waits are over at once."""
    configure(Policy(accept_unknown_kinds=True))
    passed = iter(range(10**9))
    monkeypatch.setattr(job_end, "pause", lambda _: None)
    monkeypatch.setattr(job_end, "monotonic", lambda: 60 * next(passed))
    client.post("/api/jobs", json=ECHO)

    def ask(limit: Limit, what: Any) -> Any:
        if limit.path:
            data = what if isinstance(what, bytes) else json.dumps(what)
            return client.post(limit.path, data=data, content_type=limit.content)
        if "wait=" in what:
            return client.post(what, json=ECHO)
        return client.get(what)

    return ask


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.name} {limit.place}")
def test_the_edge_is_taken_and_one_more_is_refused_by_its_place(
    send: Callable[[Limit, Any], Any], limit: Limit
) -> None:
    # The first job of the numbers that this database has drawn is no longer number 1.
    if "/jobs/1/" in f"{limit.path}{limit.edge}":
        limit = _of_job(limit, body(send(limit_of_list(), "/api/jobs"))["items"][0]["id"])

    taken, refused = send(limit, limit.edge), send(limit, limit.above)

    assert taken.status_code in limit.taken, taken.text
    assert problem(refused)[0] == limit.status, refused.text
    if limit.place is not None:
        names = [one.get("pointer", one.get("parameter")) for one in body(refused)["errors"]]
        assert names == [limit.place]


def limit_of_list() -> Limit:
    return Limit("list", "", None, None)


def _of_job(limit: Limit, number: int) -> Limit:
    def own(text: Any) -> Any:
        return text.replace("/jobs/1/", f"/jobs/{number}/") if isinstance(text, str) else text

    more = (limit.status, limit.place, limit.taken)
    return Limit(limit.name, own(limit.path), own(limit.edge), own(limit.above), *more)


UNKNOWN = (
    ("POST", "/api/jobs", {**ECHO, "bogus": 1}, "/bogus"),
    ("POST", "/api/jobs", {**ECHO, "Kind": "x"}, "/Kind"),
    ("POST", "/api/jobs/bulk", [ECHO, {**ECHO, "bogus": 1}], "/1/bogus"),
    ("POST", "/api/jobs/1/cancel", {"bogus": 1}, "/bogus"),
    ("POST", "/api/jobs/1/reschedule", {"delay": 1, "bogus": 1}, "/bogus"),
    ("POST", "/api/leases", {"kinds": ["a"], "bogus": 1}, "/bogus"),
    ("POST", "/api/leases/renew", {"items": [{**LEASES[0], "bogus": 1}]}, "/items/0/bogus"),
    ("POST", "/api/leases/settle",
     {"items": [{**LEASES[0], "verb": "fail", "bogus": 1}]}, "/items/0/bogus"),
    ("POST", "/api/operations",
     {"verb": "retry", "filter": {"bogus": 1}, "reason": "r"}, "/filter/bogus"),
    ("POST", "/api/jobs?bogus=1", ECHO, "bogus"),
    ("POST", "/api/jobs/bulk?bogus=1", [ECHO], "bogus"),
    ("GET", "/api/jobs?bogus=1", None, "bogus"),
    ("GET", "/api/jobs.csv?bogus=1", None, "bogus"),
    ("GET", "/api/jobs/1/events?bogus=1", None, "bogus"),
    ("GET", "/api/jobs/1/why?bogus=1", None, "bogus"),
    ("GET", "/api/events?bogus=1", None, "bogus"),
)  # fmt: skip


@pytest.mark.parametrize(("method", "path", "sent", "place"), UNKNOWN, ids=str)
def test_what_is_unknown_is_refused_by_name(
    client: FlaskClient, method: str, path: str, sent: Any, place: str
) -> None:
    number = body(client.post("/api/jobs", json=ECHO))["id"]

    answer = client.open(path.replace("/1/", f"/{number}/"), method=method, json=sent)

    assert problem(answer)[0] in (400, 422), answer.text
    [found] = body(answer)["errors"]
    assert found.get("pointer", found.get("parameter")) == place
    assert found["detail"].startswith("unknown")


def test_a_line_with_an_unknown_field_names_it(client: FlaskClient) -> None:
    lines = b'{"kind": "demo.echo"}\n{"kind": "demo.echo", "bogus": 1}\n'

    answer = client.post("/api/jobs/bulk", data=lines, content_type="application/x-ndjson")

    assert problem(answer) == (422, "invalid_job")
    assert [one["pointer"] for one in body(answer)["errors"]] == ["/1/bogus"]
