"""How fast and how large a token may create jobs: refused with the limit, and when to go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from throttled import utils

from queueapp import create_app
from queueapp.auth.limits import Rate
from queueapp.auth.rates import Rates
from queueapp.auth.tokens import entry_of
from queueapp.errors import SettingError
from tests.api.conftest import body, pointers, problem
from tests.applications import application

LIMITS = {
    "shop": ("producer", "rate=90/m", "burst=3"),
    "import": ("producer", "rate=2/s"),
    "small": ("producer", "payload=21"),
    "free": ("producer",),
    "ops": ("admin",),
}
ECHO = {"kind": "demo.echo"}
LIMITED = (429, "rate_limited")
BEYOND = (403, "beyond_limit")


class Clock:
    """The clock that the buckets fill by."""

    def __init__(self) -> None:
        self.now = 4096.0

    def __call__(self) -> float:
        # No two looks at a clock see one instant: the library's fractions need as much.
        self.now += 2**-20
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(utils, "now_mono_f", clock)
    return clock


@pytest.fixture
def client(database_url: str, clock: Clock) -> Iterator[FlaskClient]:
    entries = [entry_of(f"{name}-t", name, role, more) for name, (role, *more) in LIMITS.items()]
    with application(database_url, QUEUE_TOKENS=" ".join(entries)) as app:
        yield app.test_client()


@pytest.fixture
def post(client: FlaskClient) -> Callable[..., Any]:
    """Creates one job, or with a list many, as the bearer of a token."""

    def post(name: str, job: Any = None, query: str = "") -> Any:
        path = "/api/jobs/bulk" if isinstance(job, list) else "/api/jobs"
        headers = {"Authorization": f"Bearer {name}-t"}
        wanted = job if isinstance(job, list) else {**ECHO, **(job or {})}
        return client.post(f"{path}{query}", json=wanted, headers=headers)

    return post


def count(client: FlaskClient) -> int:
    answer = client.get("/api/jobs", headers={"Authorization": "Bearer ops-t"})
    return len(body(answer)["items"])


def test_beyond_its_rate_a_token_is_told_when_to_go_on(
    post: Callable[..., Any], client: FlaskClient, clock: Clock
) -> None:
    answers = [post("shop") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [201, 201, 201, 429]
    assert problem(answers[3]) == LIMITED
    # One flows in every two thirds of a second; the header counts whole ones.
    assert answers[3].headers["Retry-After"] == "1"
    assert (body(answers[3])["limit"], body(answers[3])["retry_after"]) == ("rate", 1)
    assert "90 jobs in a minute, 3 at once" in body(answers[3])["detail"]
    assert count(client) == 3

    clock.now += 0.625
    assert post("shop").status_code == 429
    clock.now += 0.125
    assert [post("shop").status_code for _ in range(2)] == [201, 429]


def test_a_token_gets_its_whole_rate_however_it_asks(
    post: Callable[..., Any], clock: Clock
) -> None:
    """Asked once a second, a bucket of whole seconds would let in two thirds of it."""
    made = 0
    for _ in range(120):
        made += sum(post("shop").status_code == 201 for _ in range(2))
        clock.now += 1

    assert 180 <= made <= 183


def test_each_token_has_a_bucket_of_its_own(post: Callable[..., Any]) -> None:
    for _ in range(4):
        post("shop")

    assert post("import").status_code == 201
    assert [post("free").status_code for _ in range(20)] == [201] * 20


def test_a_job_of_a_bulk_costs_what_a_job_costs(
    post: Callable[..., Any], client: FlaskClient, clock: Clock
) -> None:
    made, refused = post("shop", [ECHO] * 2), post("shop", [ECHO] * 3)

    assert made.status_code == 200
    assert problem(refused) == LIMITED
    # One is left, two have to flow in.
    assert refused.headers["Retry-After"] == "2"
    assert count(client) == 2
    clock.now += 2
    assert post("shop", [ECHO] * 3).status_code == 200


@pytest.mark.parametrize("query", ["", "?atomic=false"])
def test_a_bulk_that_no_wait_would_let_in_is_beyond_the_limit(
    post: Callable[..., Any], client: FlaskClient, query: str
) -> None:
    answer = post("shop", [ECHO] * 4, query)

    assert problem(answer) == BEYOND
    assert (body(answer)["limit"], pointers(answer)) == ("burst", ["/3"])
    assert "may create 3 jobs at once" in body(answer)["detail"]
    assert count(client) == 0
    # It has cost nothing.
    assert post("shop", [ECHO] * 3).status_code == 200


def test_what_is_refused_for_what_it_is_costs_nothing_and_what_is_repeated_does(
    post: Callable[..., Any],
) -> None:
    for job in ({"kind": "no.such"}, {"priority": "high"}, {"payload": 5}):
        assert post("shop", job).status_code == 422

    answers = [post("shop", {"idempotency_key": "k"}).status_code for _ in range(4)]

    assert answers == [201, 200, 200, 429]


def test_each_by_itself_only_the_good_ones_cost(post: Callable[..., Any]) -> None:
    jobs = [ECHO, {"kind": "no.such"}, ECHO, {"kind": 5}, ECHO]

    first, second = post("shop", jobs, "?atomic=false"), post("shop")

    assert body(first)["counts"]["new"] == 3
    assert second.status_code == 429


def test_a_payload_beyond_the_limit_is_refused_with_its_place(
    post: Callable[..., Any], client: FlaskClient
) -> None:
    fits, over = {"payload": {"message": "12345ü"}}, {"payload": {"message": "12345üü"}}

    refused, bulk = post("small", over), post("small", [{**ECHO, **fits}, {**ECHO, **over}])
    each = post("small", [{**ECHO, **fits}, {**ECHO, **over}], "?atomic=false")

    assert problem(refused) == BEYOND
    assert (body(refused)["limit"], pointers(refused)) == ("payload", ["/payload"])
    assert "21 bytes" in body(refused)["detail"]
    assert (problem(bulk), pointers(bulk)) == (BEYOND, ["/1/payload"])
    assert body(each)["counts"] == {"new": 1, "replay": 0, "conflict": 0, "invalid": 1}
    assert post("small", fits).status_code == 201
    assert post("free", over).status_code == 201
    assert count(client) == 3


# Where it is counted


def test_a_store_that_needs_a_package_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(SettingError, match="QUEUE_RATE_STORE: needs the package redis"):
        create_app({"DATABASE_URL": "postgresql:///x", "QUEUE_RATE_STORE": "redis://h:6379/0"})


@pytest.mark.parametrize("address", ["h:6379", "memory", "http://h", "redis://"])
def test_what_is_no_address_of_a_store_stops_the_start(address: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_RATE_STORE: expected nothing, or an address"):
        create_app({"DATABASE_URL": "postgresql:///x", "QUEUE_RATE_STORE": address})


def test_a_bucket_is_that_of_a_name_and_a_rate(clock: Clock) -> None:
    buckets, rate = Rates(), Rate(jobs=1, seconds=86_400, burst=1)

    taken = [buckets.take(key, rate, 1) for key in ("a", "b", "a")]

    assert taken == [0, 0, 86_400]
