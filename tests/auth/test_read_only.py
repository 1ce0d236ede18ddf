"""QUEUE_READ_ONLY, and a database that takes no writes: everything is shown, nothing changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session
from werkzeug.routing import Rule
from werkzeug.security import generate_password_hash

from queueapp import judgement
from queueapp.auth import Role
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.status import Status
from tests.applications import application
from tests.auth.conftest import bearer
from tests.console.conftest import DIALOG, PANEL, words
from tests.factories import make_job

# What changes nothing of the queue, and what workers need to end what has begun.
OPEN = {"/login", "/logout", "/settings"}
OF_WORKERS = {f"/api/leases{verb}" for verb in ("", "/progress", "/renew", "/settle")}
SAFE = {"GET", "HEAD", "OPTIONS"}
HASH = generate_password_hash("correct horse battery", method="scrypt:1024:8:1")


@pytest.fixture
def closed(database_url: str, tokens: str) -> Iterator[Flask]:
    """The application with a token for each role, and the setting on."""
    with application(database_url, QUEUE_TOKENS=tokens, QUEUE_READ_ONLY="1") as app:
        yield app


@pytest.fixture
def unwritable(database_url: str, tokens: str) -> Iterator[Flask]:
    """The same over a database that takes no writes, once that is known."""
    options = "-c default_transaction_read_only=on"
    url = make_url(database_url).update_query_dict({"options": options})
    with application(url.render_as_string(hide_password=False), QUEUE_TOKENS=tokens) as app:
        assert app.test_client().get("/", headers=bearer("viewer")).status_code == 200
        yield app


@pytest.fixture
def failed_job(session: Session) -> int:
    job_id = make_job(session, Status.FAILED).id
    session.commit()
    return job_id


def unsafe(app: Flask) -> Iterator[tuple[str, Rule, str]]:
    """Every route by a method that may change something: method, rule, and an address of it."""
    for rule in app.url_map.iter_rules():
        for method in sorted((rule.methods or set()) - SAFE):
            values = {"job_id": 1, "verb": "retry", "kind": "demo.echo"}
            built = rule.build({name: values.get(name, "0" * 16) for name in rule.arguments})
            assert built is not None
            yield method, rule, built[1]


def refused(app: Flask, status: int, code: str, headers: dict[str, str]) -> set[str]:
    """The addresses that refuse an admin for that reason alone."""
    found = set()
    for method, rule, path in unsafe(app):
        client = app.test_client()
        answer = client.open(path, method=method, headers={**bearer("admin"), **headers})
        if answer.status_code == status and code in answer.text:
            found.add(rule.rule)
    return found


@pytest.mark.parametrize("headers", [{}, PANEL, DIALOG], ids=["page", "panel", "dialog"])
def test_everything_that_changes_anything_is_refused_by_the_setting(
    closed: Flask, session: Session, failed_job: int, headers: dict[str, str]
) -> None:
    routes = {rule.rule for _, rule, _ in unsafe(closed)}
    before = [line.id for line in queries.events_of(session, failed_job)]
    session.rollback()

    assert refused(closed, 403, "read_only", headers) == routes - OPEN - OF_WORKERS
    assert [line.id for line in queries.events_of(session, failed_job)] == before
    assert queries.get_job(session, failed_job).status == Status.FAILED


def test_the_answer_of_the_api_names_the_setting(closed: Flask) -> None:
    answer = closed.test_client().post(
        "/api/jobs", json={"kind": "demo.echo"}, headers=bearer("producer")
    )

    assert answer.status_code == 403
    assert answer.json is not None
    assert answer.json["code"] == "read_only"
    assert "QUEUE_READ_ONLY" in answer.json["detail"]
    assert "Retry-After" not in answer.headers


def test_who_may_not_is_told_so_first(closed: Flask) -> None:
    asked = [closed.test_client().post("/pause", headers=bearer(role)) for role in ("viewer", "x")]

    assert [answer.status_code for answer in asked] == [403, 401]
    assert "The role viewer may not" in words(asked[0].text)


def test_everything_is_read_and_workers_lease(closed: Flask, failed_job: int) -> None:
    client = closed.test_client()
    for path in ("/", "/jobs", f"/jobs/{failed_job}", "/errors", "/workers", "/kinds", "/events",
                 "/operations", "/audit", "/system", "/settings", "/help", "/metrics",
                 "/api/jobs", f"/api/jobs/{failed_job}/why", "/api/stats"):  # fmt: skip
        assert client.get(path, headers=bearer("admin")).status_code == 200, path
    for path in ("/healthz", "/readyz", "/login"):
        assert client.get(path).status_code in (200, 404), path
    leased = client.post("/api/leases", json={"worker": "w"}, headers=bearer("worker"))
    assert leased.status_code != 403


def test_people_sign_in_choose_and_sign_out(database_url: str) -> None:
    settings = {"QUEUE_USERS": f"ana:admin:{HASH}", "QUEUE_READ_ONLY": "1"}
    with application(database_url, **settings) as app:
        client = app.test_client()
        form = {"name": "ana", "password": "correct horse battery"}

        assert client.post("/login", data=form).status_code == 303
        assert client.post("/settings", data={"theme": "dark"}).status_code == 303
        assert 'data-theme="dark"' in client.get("/").text
        assert client.post("/pause", data={"reason": "because"}).status_code == 403
        assert client.post("/logout").status_code == 303
        assert client.get("/").status_code == 303


def pages(client: FlaskClient, session: Session, failed_job: int) -> Iterator[tuple[str, str]]:
    """Each page that has verbs where they may be used, as an admin sees it."""
    running = make_job(session, Status.RUNNING).id
    make_job(session, Status.QUEUED)
    session.commit()
    cause = queries.get_job(session, failed_job).error_fingerprint
    for path in ("/", "/jobs", f"/jobs/{failed_job}", f"/jobs/{running}", f"/errors/{cause}",
                 "/workers", "/kinds", "/kinds/demo.echo", "/system", "/settings"):  # fmt: skip
        yield path, client.get(path, headers=bearer("admin")).text


def test_pages_have_no_verbs_and_say_why(closed: Flask, session: Session, failed_job: int) -> None:
    for path, page in pages(closed.test_client(), session, failed_job):
        assert "data-verb" not in page, path
        assert not re.search(r"<button[^>]* disabled", page), path
        forms = set(re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', page))
        assert forms <= {"/settings"}, path
        [said] = re.findall(r'id="read-only">(.*?)</p>', page)
        assert words(said) == (
            "Read-only: QUEUE_READ_ONLY is set , so nothing can be changed from here."
        ), path


def test_a_panel_says_so_to_the_script_of_a_page_that_is_open(
    closed: Flask, guarded: Flask, failed_job: int
) -> None:
    headers = {**bearer("admin"), **PANEL}
    open_ = guarded.test_client().get("/jobs", headers=headers)
    mark = {"HX-PTag": open_.headers["HX-PTag"]}

    now = closed.test_client().get("/jobs", headers=headers | mark)

    assert "data-verb" in open_.text
    assert "Queue-Read-Only" not in open_.headers
    assert now.status_code == 200, "the panel of before has verbs"
    assert "data-verb" not in now.text
    assert now.headers["Queue-Read-Only"] == "QUEUE_READ_ONLY is set"


def test_system_and_settings_tell_the_state(closed: Flask) -> None:
    client = closed.test_client()

    report = client.get("/api/system", headers=bearer("viewer")).json
    settings = words(client.get("/settings", headers=bearer("viewer")).text)
    as_admin = client.get("/settings", headers=bearer("admin")).text

    assert report is not None
    [writes] = [one for one in report["readings"] if one["code"] == "read_only"]
    assert "read-only, for everybody: QUEUE_READ_ONLY is set" in settings
    assert re.search(r'id="setting-QUEUE_READ_ONLY".*?<b>1</b>', as_admin, re.DOTALL)
    # SQLite takes writes in its own way.
    if closed.extensions["queue_settings"].is_sqlite:
        return
    assert writes["tone"] == "ok"
    assert "QUEUE_READ_ONLY is set" in writes["sentence"]


@pytest.mark.postgresql("read-only transactions")
def test_a_database_that_takes_no_writes_closes_the_console_by_itself(
    unwritable: Flask, session: Session, failed_job: int
) -> None:
    told = unwritable.test_client().get("/api/verdict", headers=bearer("viewer")).get_json()
    assert (told["level"], told["rule"]) == ("red", "read_only")
    for path, page in pages(unwritable.test_client(), session, failed_job):
        assert "data-verb" not in page, path
        assert "Read-only: the database takes no writes" in words(page), path
    routes = {rule.rule for _, rule, _ in unsafe(unwritable)}

    found = refused(unwritable, 503, "database_unavailable", {})

    assert found >= routes - OPEN - OF_WORKERS


@pytest.mark.postgresql("read-only transactions")
def test_what_is_not_known_closes_nothing(database_url: str, session: Session) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    options = "-c default_transaction_read_only=on"
    url = make_url(database_url).update_query_dict({"options": options})
    with application(url.render_as_string(hide_password=False)) as app:
        client = app.test_client()

        assert "data-verb" in client.get("/jobs").text, "nobody has looked yet"
        client.get("/")
        assert "data-verb" not in client.get("/jobs").text
        app.extensions["queue_look"].forget()
        assert "data-verb" in client.get("/jobs").text


@pytest.mark.postgresql("read-only transactions")
def test_a_look_that_meets_it_connects_anew_for_another_server_may_have_taken_over(
    unwritable: Flask,
) -> None:
    with unwritable.app_context():
        engine = db.engine
    made: list[object] = []
    event.listen(engine, "connect", lambda connection, _: made.append(connection))

    for _ in range(3):
        judgement.look(unwritable)

    assert len(made) >= 2


@pytest.mark.postgresql("read-only transactions")
def test_once_the_database_takes_writes_again_no_connection_of_before_is_believed(
    database_url: str, engine: sa.Engine
) -> None:
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    name = make_url(database_url).database
    with application(database_url) as app, alone.connect() as owner:
        with app.app_context():
            pool = db.engine
        owner.exec_driver_sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        try:
            closed = [pool.connect() for _ in range(4)]
        finally:
            owner.exec_driver_sql(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
        for connection in closed:
            connection.close()

        client, look = app.test_client(), app.extensions["queue_look"]
        for _ in range(4):
            assert look.get().value.facts.no_writes is None
        probes = [client.get("/readyz").status_code for _ in range(5)]

    # Each that meets one of them takes it away.
    assert sorted(probes, reverse=True) == probes
    assert probes[-1] == 200


@pytest.mark.postgresql("read-only transactions")
def test_a_probe_that_meets_a_read_only_connection_leaves_it(
    database_url: str, engine: sa.Engine
) -> None:
    options = "-c default_transaction_read_only=on"
    url = make_url(database_url).update_query_dict({"options": options})
    with application(url.render_as_string(hide_password=False)) as app:
        with app.app_context():
            pool = db.engine
        made: list[object] = []
        event.listen(pool, "connect", lambda connection, _: made.append(connection))

        answers = [app.test_client().get("/readyz").status_code for _ in range(3)]

    assert answers == [503] * 3
    assert len(made) >= 3


def test_every_role_is_refused_alike(closed: Flask) -> None:
    answers = {
        role: closed.test_client().post("/api/queue/pause", headers=bearer(role)) for role in Role
    }

    codes = {role: (answer.json or {})["code"] for role, answer in answers.items()}
    assert codes == {
        Role.VIEWER: "not_allowed", Role.PRODUCER: "not_allowed", Role.WORKER: "not_allowed",
        Role.OPERATOR: "read_only", Role.ADMIN: "read_only",
    }  # fmt: skip
