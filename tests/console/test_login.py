"""People sign in: who gets in, where it leads, when it ends, and what it tells to others."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.security import generate_password_hash
from werkzeug.test import TestResponse

from queueapp import create_app
from queueapp.auth.tokens import entry_of
from queueapp.errors import SettingError
from queueapp.jobs import queries
from queueapp.jobs.status import Status
from tests.applications import application
from tests.console.conftest import DIALOG, PANEL
from tests.factories import make_job

PASSWORD = "correct horse battery"
HASH = generate_password_hash(PASSWORD, method="scrypt:1024:8:1")
OTHER = generate_password_hash("another password", method="scrypt:1024:8:1")
TEAM = f"ana:operator:{HASH} vic:viewer:{HASH}"
KEY = "0123456789abcdef" * 2
HOST = "queue.example.com"

MakeApp = Callable[..., Flask]


@pytest.fixture
def make_app(database_url: str) -> Iterator[MakeApp]:
    with ExitStack() as stack:

        def make(users: str = TEAM, **more: str) -> Flask:
            return stack.enter_context(application(database_url, QUEUE_USERS=users, **more))

        yield make


@pytest.fixture
def visitor(make_app: MakeApp) -> FlaskClient:
    return visitor_of(make_app())


class Visitor(FlaskClient):
    """A browser that comes from elsewhere, over https unless told otherwise."""

    scheme = "https"

    def open(self, *args: Any, **options: Any) -> TestResponse:
        return super().open(*args, **{"base_url": f"{self.scheme}://{HOST}", **options})


def visitor_of(app: Flask, *, use_cookies: bool = True) -> Visitor:
    """``use_cookies``: else each request shows the header that it is given."""
    client = Visitor(app, app.response_class, use_cookies=use_cookies)
    client.environ_base = {"REMOTE_ADDR": "203.0.113.7"}
    return client


def sign_in(
    client: FlaskClient, name: str = "ana", password: str = PASSWORD, **form: str
) -> TestResponse:
    return client.post("/login", data={"name": name, "password": password, **form})


def cookie_of(answer: TestResponse) -> str:
    return answer.headers["Set-Cookie"]


def carry(answer: TestResponse, client: FlaskClient) -> None:
    """Show the cookie of ``answer`` to another application."""
    value = cookie_of(answer).partition(";")[0].partition("=")[2]
    client.set_cookie("__Host-queue_session", value, domain=HOST)


def test_the_way_in_and_out(visitor: FlaskClient, session: Session) -> None:
    job_id = make_job(session, Status.FAILED).id
    session.commit()

    away = visitor.get(f"/jobs/{job_id}?upto=5")
    assert away.status_code == 303
    form = visitor.get(away.location)
    assert form.status_code == 200
    place = re.search(r'name="next" value="([^"]*)"', form.text)
    assert place
    entered = sign_in(visitor, next=place[1])
    assert (entered.status_code, entered.location) == (303, f"/jobs/{job_id}?upto=5")
    page = visitor.get(entered.location)
    assert page.status_code == 200
    assert 'data-verb="retry"' in page.text
    assert visitor.post(f"/jobs/{job_id}/retry").status_code == 303
    session.rollback()
    assert queries.events_of(session, job_id)[-1].actor == "user:ana"

    assert visitor.get("/login?next=/jobs").location == "/jobs"
    left = visitor.post("/logout")
    assert (left.status_code, left.location) == (303, "/login")
    assert visitor.get("/").location == "/login?next=/"


def test_a_viewer_looks_and_does_not_act(visitor: FlaskClient, session: Session) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    sign_in(visitor, "vic")

    assert visitor.get("/jobs/1").status_code == 200
    assert "data-verb=" not in visitor.get("/jobs/1").text
    assert visitor.post("/jobs/1/retry").status_code == 403
    assert visitor.post("/api/jobs/1/retry").status_code == 403
    assert visitor.get("/api/jobs/1").status_code == 200


def test_the_cookie_is_for_this_site_and_no_script(visitor: FlaskClient) -> None:
    parts = {part.strip() for part in cookie_of(sign_in(visitor)).split(";")[1:]}

    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= parts
    assert not any(part.startswith("Domain") for part in parts)


def test_no_other_host_of_the_domain_can_hand_a_session_over(visitor: FlaskClient) -> None:
    name, _, value = cookie_of(sign_in(visitor)).partition(";")[0].partition("=")
    other = visitor_of(visitor.application, use_cookies=False)

    # Of this name browsers take a cookie from the very host only, and over https.
    assert name == "__Host-queue_session"
    for shown, status in ((name, 200), ("queue_session", 303)):
        cookie = {"HTTP_COOKIE": f"{shown}={value}"}
        assert other.get("/", environ_overrides=cookie).status_code == status


def test_on_the_machine_itself_there_is_no_https(make_app: MakeApp) -> None:
    client = make_app().test_client()

    answer = sign_in(client)

    assert answer.status_code == 303
    assert "Secure" not in cookie_of(answer)
    assert cookie_of(answer).startswith("queue_session=")
    assert client.get("/").status_code == 200


def test_the_machine_itself_has_to_sign_in_as_well(make_app: MakeApp) -> None:
    client = make_app().test_client()

    assert client.get("/").location == "/login?next=/"
    assert client.get("/api/jobs").status_code == 401


def test_a_password_over_plain_http_is_not_even_looked_at(make_app: MakeApp) -> None:
    client = visitor_of(make_app())
    client.scheme = "http"

    answer = sign_in(client)
    proxied = client.post(
        "/login",
        data={"name": "ana", "password": PASSWORD},
        headers={"X-Forwarded-Proto": "https"},
    )

    assert answer.status_code == 403
    assert "https only" in answer.text
    assert "Set-Cookie" not in answer.headers
    assert proxied.status_code == 303


@pytest.mark.parametrize(
    "form",
    [
        {"password": "wrong"}, {"name": "nobody"}, {"name": ""}, {"password": ""},
        {"name": "ana\x00"}, {"password": PASSWORD + "x" * 600}, {"name": "\U0001f511" * 500},
    ],
    ids=ascii,
)  # fmt: skip
def test_who_is_refused_learns_nothing_but_that(
    visitor: FlaskClient, form: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = sign_in(visitor, **{"name": "ana", "password": PASSWORD, **form})

    assert answer.status_code == 401
    assert "Name or password is wrong." in answer.text
    assert "Set-Cookie" not in answer.headers
    assert PASSWORD not in answer.text + caplog.text
    assert visitor.get("/").status_code == 303


def test_what_is_sent_without_a_form_is_refused(visitor: FlaskClient) -> None:
    for options in ({}, {"json": {"name": "ana", "password": PASSWORD}}, {"data": b"\xff\xfe"}):
        assert visitor.post("/login", **options).status_code == 401
    assert visitor.post("/login", data={"name": "a" * 20_000}).status_code == 413


def test_nothing_secret_is_logged(visitor: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sign_in(visitor, name="typed-my-password-here")
    answer = sign_in(visitor)

    assert "a sign-in from 203.0.113.7 failed" in caplog.text
    assert "user:ana signed in" in caplog.text
    cookie = cookie_of(answer).partition(";")[0].partition("=")[2]
    for secret in (PASSWORD, HASH, "typed-my-password", cookie):
        assert secret not in caplog.text


def test_tries_are_throttled_and_told_in_seconds(visitor: FlaskClient) -> None:
    for _ in range(10):
        assert sign_in(visitor, password="wrong").status_code == 401
    refused = sign_in(visitor)

    assert refused.status_code == 429
    wait = int(refused.headers["Retry-After"])
    assert 1 <= wait <= 60
    assert f"Try again in {wait} second" in refused.text
    assert 'name="name" value="ana"' in refused.text
    assert "Set-Cookie" not in refused.headers


def test_many_who_try_at_once_leave_threads_to_others(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, begun, go_on = make_app(), threading.Semaphore(0), threading.Event()

    def slowly(*_given: object) -> None:
        begun.release()
        go_on.wait(30)

    monkeypatch.setattr("queueapp.console.login.who_knows", slowly)
    with ThreadPoolExecutor() as pool:
        busy = [pool.submit(sign_in, visitor_of(app), name) for name in ("ana", "vic")]
        try:
            assert all(begun.acquire(timeout=30) for _ in busy)
            refused = sign_in(visitor_of(app))
        finally:
            go_on.set()

    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert [one.result().status_code for one in busy] == [401, 401]
    assert sign_in(visitor_of(app)).status_code == 401


def test_who_knows_the_password_is_never_throttled(visitor: FlaskClient) -> None:
    assert {sign_in(visitor).status_code for _ in range(15)} == {303}


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.example/", "//evil.example/", "/\\evil.example", "\\\\evil.example",
        "/\t/evil.example", "http:evil", "javascript:alert(1)", " //evil.example", "", "jobs",
        "http://[evil", "https://queue.example.com@evil.example/",
    ],
)  # fmt: skip
def test_it_leads_to_pages_of_this_console_only(visitor: FlaskClient, place: str) -> None:
    form = visitor.get("/login", query_string={"next": place})

    assert 'name="next" value="/"' in form.text
    assert sign_in(visitor, next=place).location == "/"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_another_site_signs_nobody_in_or_out_and_acts_for_nobody(
    visitor: FlaskClient, session: Session, headers: dict[str, str]
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    form = {"name": "ana", "password": PASSWORD}

    assert visitor.post("/login", data=form, headers=headers).status_code == 403
    sign_in(visitor)
    for path in ("/logout", "/jobs/1/retry", "/jobs/bulk", "/api/jobs/1/retry", "/api/jobs"):
        assert visitor.post(path, headers=headers).status_code == 403, path
    assert visitor.get("/").status_code == 200


# When a session ends


@pytest.mark.parametrize("key", ["", KEY], ids=["made", "configured"])
@pytest.mark.parametrize(
    ("users", "lasts"),
    [
        (TEAM, True),
        (f"ana:operator:{OTHER} vic:viewer:{HASH}", False),
        (f"vic:viewer:{HASH}", False),
    ],
    ids=["the same", "another password", "gone"],
)
def test_a_session_ends_with_its_password(
    make_app: MakeApp, key: str, users: str, lasts: bool
) -> None:
    answer = sign_in(visitor_of(make_app(QUEUE_SECRET_KEY=key)))
    later = visitor_of(make_app(users, QUEUE_SECRET_KEY=key))
    carry(answer, later)

    assert later.get("/").status_code == (200 if lasts else 303)


def test_a_role_changes_at_once(make_app: MakeApp) -> None:
    answer = sign_in(visitor_of(make_app(QUEUE_SECRET_KEY=KEY)))
    later = visitor_of(make_app(TEAM.replace("operator", "viewer"), QUEUE_SECRET_KEY=KEY))
    carry(answer, later)

    assert later.get("/").status_code == 200
    assert later.post("/jobs/1/retry").status_code == 403


def test_a_session_ends_with_another_key(make_app: MakeApp) -> None:
    answer = sign_in(visitor_of(make_app(QUEUE_SECRET_KEY=KEY)))
    later = visitor_of(make_app(QUEUE_SECRET_KEY=KEY[::-1]))
    carry(answer, later)

    assert later.get("/").status_code == 303


def test_a_session_ends_with_its_time_however_busy(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visitor_of(make_app(QUEUE_SESSION_LENGTH="1h"))
    sign_in(visitor)
    now = __import__("time").time()

    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: now + 3500)
    answer = visitor.get("/")
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (200, False)
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: now + 3700)
    assert visitor.get("/").status_code == 303


@pytest.mark.parametrize("length", ["0", "10ms", "9999999d", "99999999999999d"])
def test_a_length_that_no_session_can_have_stops_the_start(length: str) -> None:
    with pytest.raises(SettingError, match=r"^QUEUE_SESSION_LENGTH: expected 1m to 365d"):
        create_app({"DATABASE_URL": "postgresql://nowhere/none", "QUEUE_SESSION_LENGTH": length})


@pytest.mark.parametrize("value", ["", "x", "e30.x.y", "\xff\xfe", "a" * 8000, ".eJw.", '{"name"'])
def test_a_cookie_of_somebody_elses_making_is_none(make_app: MakeApp, value: str) -> None:
    cookie = f"__Host-queue_session={value}"
    visitor = visitor_of(make_app(), use_cookies=False)

    answer = visitor.get("/", environ_overrides={"HTTP_COOKIE": cookie})

    assert answer.status_code == 303


# A session that ends while somebody works


def test_a_refresh_moves_the_whole_page_to_the_sign_in(visitor: FlaskClient) -> None:
    here = "https://queue.example.com/jobs?status=failed"
    answer = visitor.get("/jobs?status=failed", headers={**PANEL, "HX-Current-URL": here})

    assert answer.status_code == 401
    assert "<form" not in answer.text
    parts = urlsplit(answer.headers["HX-Redirect"])
    assert (parts.path, parse_qs(parts.query)) == ("/login", {"next": ["/jobs?status=failed"]})


@pytest.mark.parametrize("headers", [{}, DIALOG], ids=["form", "script"])
def test_an_action_is_seen_to_have_failed(
    visitor: FlaskClient, session: Session, headers: dict[str, str]
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    page = "https://queue.example.com/jobs?kind=demo.echo"
    headers = {**headers, "Referer": page, "HX-Current-URL": page}

    answer = visitor.post("/jobs/1/retry", headers=headers)

    place = answer.headers.get("HX-Redirect") or answer.location
    assert "nothing was done" in visitor.get(place).text
    assert 'value="/jobs?kind=demo.echo"' in visitor.get(place).text
    session.rollback()
    assert queries.get_job(session, 1).status == "failed"


@pytest.mark.parametrize("page", ["https://evil.example/jobs", "http://[evil", "", "/jobs"])
def test_the_page_of_another_site_is_not_where_it_leads(visitor: FlaskClient, page: str) -> None:
    answer = visitor.get("/jobs", headers={**PANEL, "HX-Current-URL": page})

    assert answer.headers["HX-Redirect"] == "/login"


# What else there is


def test_tokens_and_people_live_side_by_side(make_app: MakeApp) -> None:
    visitor = visitor_of(make_app(QUEUE_TOKENS=entry_of("t", "shop", "producer")))
    as_shop = {"Authorization": "Bearer t"}
    job = {"kind": "demo.echo"}

    assert visitor.post("/api/jobs", json=job).status_code == 401
    assert visitor.post("/api/jobs", json=job, headers=as_shop).status_code == 201
    sign_in(visitor)
    made = visitor.post("/api/jobs", json=job).json
    assert made is not None
    assert made["producer"] == "user:ana"
    # Whoever shows a token is judged by it alone.
    assert visitor.get("/", headers=as_shop).status_code == 403
    assert visitor.get("/api/jobs", headers={"Authorization": "Bearer x"}).status_code == 401


def test_without_people_there_is_no_sign_in(client: FlaskClient) -> None:
    assert client.get("/login").status_code == 404
    assert client.post("/login", data={"name": "a", "password": "b"}).status_code == 404
    assert client.post("/logout").status_code == 404
    assert "Sign out" not in client.get("/").text


def test_in_production_nobody_is_taken_for_the_person_at_the_machine(make_app: MakeApp) -> None:
    closed = make_app("", QUEUE_ENV="production").test_client()
    opened = make_app(QUEUE_ENV="production").test_client()

    for path in ("/", "/api/jobs"):
        answer = closed.get(path)
        assert answer.status_code == 403
        assert "QUEUE_USERS" in answer.text
    assert closed.get("/healthz").status_code == 200
    sign_in(opened)
    assert opened.get("/").status_code == 200


def test_the_page_asks_for_no_script_and_nothing_inline(visitor: FlaskClient) -> None:
    form = visitor.get("/login")

    assert "script-src 'self'" in form.headers["Content-Security-Policy"]
    assert "form-action 'self'" in form.headers["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=", form.text)
    assert " hx-" not in form.text.partition("<main")[2].partition("</main>")[0]
    assert form.headers["Cache-Control"] == "no-store"
