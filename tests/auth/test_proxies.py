"""People whom a proxy in front names: its word counts, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.security import generate_password_hash
from werkzeug.test import TestResponse
from werkzeug.wrappers import Request

from queueapp import create_app
from queueapp.auth.tokens import entry_of
from queueapp.errors import SettingError
from tests.applications import application

HASH = generate_password_hash("correct horse battery", method="scrypt:1024:8:1")
SETTINGS = {
    "QUEUE_TRUSTED_PROXIES": "10.0.0.5, 192.168.7.0/24, 2001:db8::5",
    "QUEUE_PROXY_USER_HEADER": "X-Forwarded-User",
    "QUEUE_USERS": "ana:operator ben@example.com:viewer",
}
PROXY = "10.0.0.5"

MakeClient = Callable[..., FlaskClient]


@pytest.fixture
def make_client(database_url: str) -> Iterator[MakeClient]:
    with ExitStack() as stack:

        def make(**more: str) -> FlaskClient:
            app = stack.enter_context(application(database_url, **{**SETTINGS, **more}))
            return app.test_client()

        yield make


@pytest.fixture
def client(make_client: MakeClient) -> FlaskClient:
    return make_client()


def ask(
    client: FlaskClient, name: str | None = "ana", peer: str = PROXY, path: str = "/", **more: Any
) -> TestResponse:
    headers = {**({} if name is None else {"X-Forwarded-User": name}), **more.pop("headers", {})}
    environ = {"REMOTE_ADDR": peer, **more.pop("environ", {})}
    return client.open(path, headers=headers, environ_overrides=environ, **more)


@pytest.mark.parametrize("peer", [PROXY, "192.168.7.200", "2001:db8::5", "::ffff:10.0.0.5"])
def test_a_listed_proxy_says_who_it_is(client: FlaskClient, peer: str) -> None:
    page = ask(client, peer=peer)
    made = ask(client, peer=peer, path="/api/jobs", method="POST", json={"kind": "demo.echo"})

    assert page.status_code == 200
    assert ">ana</span>" in page.text
    assert "Sign out" not in page.text
    assert made.json is not None
    assert made.json["producer"] == "user:ana"


def test_the_first_job_over_http_is_shown_with_the_token_that_it_takes(client: FlaskClient) -> None:
    page = ask(client).text

    assert "  -H 'Authorization: Bearer TOKEN' \\\n  -H 'Content-Type: application/json'" in page
    assert "flask token new shop --role producer" in page


def test_the_entry_says_what_they_may(client: FlaskClient) -> None:
    assert ask(client, "ben@example.com").status_code == 200
    assert ask(client, "ben@example.com", path="/jobs/1/retry", method="POST").status_code == 403
    assert ask(client, "ana", path="/jobs/1/retry", method="POST").status_code == 404


@pytest.mark.parametrize(
    "peer", ["127.0.0.1", "10.0.0.6", "203.0.113.7", "::1", "", "unix", "10.0.0.5, 10.0.0.5"]
)
def test_from_anywhere_else_the_header_is_nothing(client: FlaskClient, peer: str) -> None:
    for headers in ({}, {"X-Forwarded-For": PROXY}, {"X-Real-Ip": PROXY}):
        answer = ask(client, peer=peer, headers=headers)
        assert answer.status_code == 403
        assert "through the proxy in front" in answer.text
    assert ask(client, peer=peer, path="/api/jobs").status_code == 403


@pytest.mark.parametrize("name", [None, ""])
def test_whom_the_proxy_does_not_name_stays_outside(client: FlaskClient, name: str | None) -> None:
    assert ask(client, name).status_code == 403
    assert ask(client, name, path="/healthz").status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        "ana,admin", "ana, ben", "local", "a b", " ana", "caf\xe9", "../ana", "a" * 101,
        "user:ana",
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused(make_client: MakeClient, name: str) -> None:
    client = make_client(QUEUE_PROXY_ROLE="admin")

    assert ask(client, environ={"HTTP_X_FORWARDED_USER": name}).status_code == 403


def test_who_has_no_entry_has_the_role_that_is_configured(make_client: MakeClient) -> None:
    none, viewer = make_client(), make_client(QUEUE_PROXY_ROLE="viewer")

    refused = ask(none, "carl")
    assert refused.status_code == 403
    assert "carl:viewer" in refused.text
    assert ask(viewer, "carl").status_code == 200
    assert ask(viewer, "carl", path="/jobs/1/retry", method="POST").status_code == 403
    assert ask(viewer, "ana", path="/jobs/1/retry", method="POST").status_code == 404


def test_another_site_acts_for_nobody(client: FlaskClient) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        answer = ask(client, path="/api/jobs", method="POST", headers=headers)
        assert answer.status_code == 403


def test_without_its_header_a_proxy_names_nobody(make_client: MakeClient) -> None:
    client = make_client(
        QUEUE_PROXY_USER_HEADER="", QUEUE_USERS=f"ana:operator:{HASH}", QUEUE_PROXY_ROLE="admin"
    )

    assert ask(client).location == "/login?next=/"


def test_what_a_proxy_on_this_machine_passes_on_is_not_the_machine_itself(
    make_client: MakeClient,
) -> None:
    settings = {"QUEUE_PROXY_USER_HEADER": "", "QUEUE_USERS": "", "QUEUE_TRUSTED_PROXIES": "::1"}
    none = make_client(**settings)
    tokens = make_client(**settings, QUEUE_TOKENS=entry_of("t", "shop", "producer"))

    # No header, its own idea of Host: nothing but the address tells it from a person there.
    for client, paths in ((none, ("/", "/api/jobs")), (tokens, ("/", "/jobs/1"))):
        for path in paths:
            assert client.get(path, environ_overrides={"REMOTE_ADDR": "::1"}).status_code == 403
        assert client.get("/").status_code == 200


def test_a_token_comes_through_the_proxy_as_itself(make_client: MakeClient) -> None:
    client = make_client(QUEUE_TOKENS=entry_of("t", "shop", "producer"))
    as_shop = {"Authorization": "Bearer t"}

    assert ask(client, None, path="/api/jobs", headers=as_shop).status_code == 200
    assert ask(client, "ana", path="/api/stats", headers=as_shop).status_code == 403
    assert ask(client, "ana", path="/api/stats").status_code == 200
    assert ask(client, None, path="/api/stats").status_code == 401


def test_passwords_work_beside_it_for_those_who_have_one(make_client: MakeClient) -> None:
    client = make_client(QUEUE_USERS=f"ana:operator dora:admin:{HASH}")
    form = {"password": "correct horse battery"}

    for name, wanted in (("ana", 401), ("dora", 303)):
        answer = client.post("/login", data={"name": name, **form})
        assert answer.status_code == wanted
    assert "Sign out" in client.get("/").text
    # Whom the proxy names is that one, whatever the browser remembers.
    assert ">ana</span>" in ask(client).text


def test_tries_are_counted_by_the_address_behind_the_proxy(make_client: MakeClient) -> None:
    settings = {"QUEUE_USERS": f"dora:admin:{HASH}"}
    client, another = make_client(**settings), make_client(**settings)

    def fail(number: int, chain: str, peer: str = PROXY) -> int:
        # Two, since all addresses together are limited as well.
        return (
            (client if peer == PROXY else another)
            .post(
                "/login",
                data={"name": f"n{number}", "password": "x"},
                headers={"X-Forwarded-For": chain},
                environ_overrides={"REMOTE_ADDR": peer},
            )
            .status_code
        )

    # What stands before the last address that is no proxy of ours anybody could have written.
    tries = [fail(n, f"198.51.100.{n}, 203.0.113.7, 192.168.7.1") for n in range(11)]
    assert tries == [401] * 10 + [429]
    assert fail(20, "203.0.113.8") == 401
    others = [fail(30 + n, f"198.51.100.{n}", peer="203.0.113.9") for n in range(11)]
    assert others == [401] * 10 + [429]


@pytest.mark.parametrize(
    ("chain", "address"),
    [
        ("203.0.113.7:51234", "203.0.113.7"),
        ("[2001:db8:9::7]:51234", "2001:db8:9::7"),
        ("[2001:db8:9::7]", "2001:db8:9::7"),
        ("2001:db8:9::7", "2001:db8:9::7"),
        ("198.51.100.1, 203.0.113.7:51234, 192.168.7.1:443", "203.0.113.7"),
        ("203.0.113.7:x", PROXY),
        ("unknown", PROXY),
        ("", PROXY),
    ],
)
def test_some_proxies_tell_the_port_as_well(client: FlaskClient, chain: str, address: str) -> None:
    proxies = client.application.extensions["queue_proxies"]
    environ = {"REMOTE_ADDR": PROXY, "HTTP_X_FORWARDED_FOR": chain}

    # Taken for no address, it would leave the proxy's own: one count of tries for the whole world.
    assert proxies.address_of(Request(environ)) == address


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"QUEUE_TRUSTED_PROXIES": ""}, "QUEUE_PROXY_USER_HEADER: set QUEUE_TRUSTED_PROXIES"),
        ({"QUEUE_TRUSTED_PROXIES": "0.0.0.0/0"}, "anybody is one"),
        ({"QUEUE_TRUSTED_PROXIES": "::/0"}, "anybody is one"),
        ({"QUEUE_TRUSTED_PROXIES": "proxy.internal"}, "expected addresses or networks"),
        ({"QUEUE_TRUSTED_PROXIES": "10.0.0.5/8"}, "expected addresses or networks"),
        ({"QUEUE_PROXY_USER_HEADER": "X_User"}, "the name of a header"),
        ({"QUEUE_PROXY_USER_HEADER": "Cookie"}, "a header of its own"),
        ({"QUEUE_PROXY_ROLE": "worker"}, "expected one of none, viewer"),
        ({"QUEUE_PROXY_USER_HEADER": ""}, "ana needs the hash"),
    ],
    ids=str,
)  # fmt: skip
def test_a_setting_that_trusts_too_much_stops_the_start(
    settings: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingError) as raised:
        create_app({"DATABASE_URL": "postgresql://nowhere/none", **SETTINGS, **settings})

    assert said in str(raised.value)
