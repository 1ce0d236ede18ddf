"""Where a request comes from: closed by default, and no other site acts for the person here."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

JOB = {"kind": "demo.echo"}


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000"])
@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_the_machine_itself_may_do_everything(client: FlaskClient, host: str, peer: str) -> None:
    answer = client.post(
        "/api/jobs", json=JOB, headers={"Host": host}, environ_overrides={"REMOTE_ADDR": peer}
    )

    assert answer.status_code == 201
    assert answer.json is not None
    assert answer.json["producer"] == "user:local"


@pytest.mark.parametrize(
    "environ",
    [
        {"REMOTE_ADDR": "203.0.113.7"},
        {"REMOTE_ADDR": "::ffff:203.0.113.7"},
        {"REMOTE_ADDR": ""},
        {"HTTP_HOST": "queue.example.com"},
        {"HTTP_HOST": "localhost.example.com"},
        {"HTTP_HOST": "127.0.0.1.nip.io"},
        {"HTTP_HOST": "localhost@evil.example"},
        {"HTTP_HOST": "127.0.0.1:80:80"},
        {"HTTP_HOST": "2130706433"},
        {"HTTP_HOST": ""},
        {"SERVER_PROTOCOL": "HTTP/1.0"},
        *(
            {f"HTTP_{name}": "127.0.0.1"}
            for name in (
                "X_FORWARDED_FOR", "X_FORWARDED_HOST", "X_FORWARDED_PROTO", "X_FORWARDED",
                "FORWARDED", "X_REAL_IP", "VIA", "CF_CONNECTING_IP", "TRUE_CLIENT_IP",
                "X_ORIGINAL_HOST", "X_CLIENT_IP",
            )
        ),
    ],
    ids=str,
)  # fmt: skip
def test_anybody_else_is_told_how_to_configure_access(
    client: FlaskClient, environ: dict[str, str]
) -> None:
    answer = client.get("/api/jobs", environ_overrides=environ)

    assert answer.status_code == 403
    assert answer.json is not None
    assert "QUEUE_TOKENS" in answer.json["detail"]


def test_health_is_answered_to_everybody(client: FlaskClient) -> None:
    for path in ("/healthz", "/readyz"):
        assert client.get(path, environ_overrides={"REMOTE_ADDR": "203.0.113.7"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://localhost"},
        {"Origin": "http://LOCALHOST", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://localhost:8443", "Host": "localhost:8443"},
    ],
    ids=str,
)
def test_our_own_pages_and_plain_programs_may_post(
    client: FlaskClient, headers: dict[str, str]
) -> None:
    assert client.post("/api/jobs", json=JOB, headers=headers).status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # another port of this very host
        {"Sec-Fetch-Site": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:8001"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://[evil"},
        {"Origin": "file://localhost"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
def test_a_page_of_another_site_may_not_post(client: FlaskClient, headers: dict[str, str]) -> None:
    answer = client.post("/api/jobs", json=JOB, headers=headers)

    assert answer.status_code == 403
    assert client.get("/api/jobs").json == {
        "items": [], "next": None, "previous": None, "cut": False,
    }  # fmt: skip


def test_another_site_may_link_here(client: FlaskClient) -> None:
    assert client.get("/api/jobs", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200
