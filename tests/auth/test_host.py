"""An application around ours says who is there: the only way in for people, and a closed one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flask
import pytest
from flask import Flask
from sqlalchemy.orm import Session
from werkzeug.exceptions import Forbidden
from werkzeug.security import generate_password_hash
from werkzeug.wrappers import Request

from queueapp import create_app
from queueapp.auth import Identify, Role
from queueapp.errors import SettingError
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.status import Status
from tests.auth.conftest import bearer
from tests.console.conftest import PANEL
from tests.factories import make_job

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
HASH = generate_password_hash("correct horse battery", method="scrypt:1024:8:1")


@contextmanager
def within(
    url: str, identify: Identify | None, *, sign_in: str = "", **settings: str
) -> Iterator[Flask]:
    """The application with a hook; without TESTING, as a failing one is answered there."""
    app = create_app({"DATABASE_URL": url, **settings}, identify=identify, sign_in=sign_in)
    try:
        yield app
    finally:
        with app.app_context():
            db.engine.dispose()


def by_header(request: Request) -> tuple[str, str] | None:
    """Whom the test's headers name: ``X-Who: ana operator``."""
    name, _, role = request.headers.get("X-Who", "").partition(" ")
    return (name, role) if name else None


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_each_role_does_what_it_may_under_its_own_name(
    database_url: str, session: Session, role: str
) -> None:
    job_id = make_job(session, Status.FAILED).id
    session.commit()
    with within(database_url, by_header) as app:
        client, who = app.test_client(), {"X-Who": f"ana@example.com {role}"}

        statuses = [
            client.get("/jobs", headers=who).status_code,
            client.get(f"/jobs/{job_id}/clone", headers=who).status_code,
            client.post(f"/jobs/{job_id}/retry", headers=who).status_code,
        ]

    assert statuses == {
        "viewer": [200, 403, 403], "operator": [200, 403, 303], "admin": [200, 200, 303],
    }[role]  # fmt: skip
    last = queries.events_of(session, job_id)[-1]
    moved = ("requeued", "user:ana@example.com")
    assert ((last.event, last.actor) == moved) is (role != "viewer")


def test_its_sign_in_is_the_only_one(database_url: str, tokens: str) -> None:
    with within(database_url, by_header, QUEUE_TOKENS=tokens) as app:
        client = app.test_client()

        # Not even whoever sits at the machine.
        for path in ("/", "/jobs", "/api/jobs", "/metrics"):
            assert client.get(path).status_code == 401, path
        assert client.get("/login").status_code == 404
        assert client.post("/login", data={"name": "ana", "password": HASH}).status_code == 404
        assert client.get("/healthz").status_code == 200
        # Programs show their tokens as ever, and are judged by them alone.
        assert client.get("/api/jobs", headers=bearer(Role.VIEWER)).status_code == 200
        both = {**bearer(Role.VIEWER), "X-Who": "ana admin"}
        assert client.post("/api/queue/pause", headers=both).status_code == 403
        wrong = {"Authorization": "Bearer wrong", "X-Who": "ana admin"}
        assert client.get("/jobs", headers=wrong).status_code == 401
        # And its people read the API as well.
        assert client.get("/api/jobs", headers={"X-Who": "ana viewer"}).status_code == 200


def test_who_is_not_signed_in_is_led_to_its_page_and_back(database_url: str) -> None:
    with within(database_url, by_header, sign_in="/login?from=queue") as app:
        client = app.test_client()

        page = client.get("/jobs?status=failed")
        polled = client.get("/jobs", headers={**PANEL, "HX-Current-URL": "http://localhost/jobs"})
        program = client.get("/api/jobs")

    assert page.status_code == 303
    assert page.location == "/login?from=queue&next=%2Fjobs%3Fstatus%3Dfailed"
    assert polled.status_code == 401
    assert polled.headers["HX-Redirect"] == "/login?from=queue&next=%2Fjobs"
    assert program.status_code == 401
    assert program.json is not None
    assert program.json["code"] == "not_authenticated"


def test_one_that_fails_lets_nobody_in(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Request) -> tuple[str, str] | None:
        raise LookupError("the directory does not answer")

    with within(database_url, broken) as app:
        answers = [app.test_client().get(path) for path in ("/", "/api/jobs", "/settings")]
        answers.append(app.test_client().post("/pause", data={"reason": "because"}))

    assert {answer.status_code for answer in answers} == {500}
    assert all("directory" not in answer.text for answer in answers)
    assert "LookupError" in caplog.text


def test_one_may_refuse_in_its_own_words(database_url: str) -> None:
    def strict(_: Request) -> tuple[str, str] | None:
        raise Forbidden("not on Sundays")

    with within(database_url, strict) as app:
        answer = app.test_client().get("/")

    assert answer.status_code == 403
    assert "Not on Sundays" in answer.text


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (("ana", "root"), "for ana the role 'root'"),
        (("ana", "producer"), "for ana the role 'producer'"),
        (("ana", None), "for ana the role None"),
        (("ana", ["admin"]), "for ana the role ['admin']"),
        (("local", "admin"), "a name that cannot be one"),
        (("a b", "admin"), "a name that cannot be one"),
        (("", "admin"), "a name that cannot be one"),
        ((7, "admin"), "a name that cannot be one"),
        (("ana",), "a tuple"),
        (True, "a bool"),
        (False, "a bool"),
        ("", "a str"),
        ("ab", "a str"),
    ],
)
def test_an_answer_that_is_none_is_refused_loudly(
    database_url: str, caplog: pytest.LogCaptureFixture, told: Any, said: str
) -> None:
    with within(database_url, lambda _: told) as app:
        answer = app.test_client().get("/api/jobs")

    assert answer.status_code == 500
    assert answer.json is not None
    assert answer.json["code"] == "bad_setting"
    assert said in answer.json["detail"]
    assert said in caplog.text


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_page_of_another_site_acts_for_nobody(database_url: str, headers: dict[str, str]) -> None:
    with within(database_url, by_header) as app:
        client, who = app.test_client(), {"X-Who": "ana admin"}

        assert client.post("/pause", headers={**who, **headers}).status_code == 403
        assert client.post("/api/queue/pause", headers={**who, **headers}).status_code == 403
        ours = {**who, "Sec-Fetch-Site": "same-origin"}
        assert client.post("/api/queue/pause", headers=ours, json={}).status_code == 422


@pytest.mark.parametrize(
    "settings",
    [
        {"QUEUE_USERS": f"ana:admin:{HASH}"},
        {"QUEUE_PROXY_USER_HEADER": "X-User", "QUEUE_TRUSTED_PROXIES": "10.0.0.5"},
    ],
)
def test_another_way_in_beside_it_is_refused_at_start(settings: dict[str, str]) -> None:
    with pytest.raises(SettingError, match=next(iter(settings))):
        create_app({"DATABASE_URL": "postgresql://nowhere/none", **settings}, identify=by_header)


def documented() -> str:
    """The example of the page."""
    section = PAGE.read_text().partition("## People: an application around this one")[2]
    return section.partition("```python\n")[2].partition("```")[0]


def test_the_documented_application_opens_the_console_by_its_session(
    database_url: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = make_job(session, Status.FAILED).id
    session.commit()
    monkeypatch.setenv("DATABASE_URL", database_url)
    made: dict[str, Any] = {"__name__": "site"}
    exec(documented(), made)
    site: Flask = made["site"]

    @site.get("/login")
    def login() -> str:
        flask.session["user"] = flask.request.args["as"]
        return "welcome"

    client = site.test_client()

    before = client.get("/queue/jobs")
    client.get("/login?as=eve")
    seen = client.get("/queue/jobs")
    refused = client.post(f"/queue/jobs/{job_id}/retry")
    client.get("/login?as=ana")
    retried = client.post(f"/queue/jobs/{job_id}/retry")

    with made["queue"].app_context():
        db.engine.dispose()
    assert before.location == "/login?next=%2Fqueue%2Fjobs"
    assert seen.status_code == 200
    assert 'href="/queue/kinds"' in seen.text
    assert 'title="viewer, signed in elsewhere">eve<' in seen.text
    assert "/queue/logout" not in seen.text
    assert refused.status_code == 403
    assert retried.location.startswith("/queue/jobs")
    assert queries.events_of(session, job_id)[-1].actor == "user:ana"
