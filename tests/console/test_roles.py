"""Who may look and who may act: the server decides, the buttons follow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.auth import Role
from queueapp.jobs import queries
from queueapp.jobs.status import Status
from tests.applications import application
from tests.factories import make_job

LOOK = ("/", "/jobs", "/jobs/1", "/errors", "/errors/0123456789abcdef", "/events", "/workers",
        "/operations", "/system", "/kinds", "/kinds/demo.echo",
        "/audit", "/audit.csv", "/settings", "/help", "/go?q=demo")  # fmt: skip
ACT = ("/jobs/1/retry", "/jobs/1/hold", "/jobs/1/reschedule", "/jobs/1/cancel", "/jobs/bulk",
       "/workers/release", "/workers/drain", "/pause", "/resume",
       "/kinds/demo.echo/hold", "/kinds/demo.echo/unhold")  # fmt: skip
LOOKERS = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
ACTORS = (Role.OPERATOR, Role.ADMIN)


@pytest.fixture
def guarded(database_url: str) -> Iterator[Flask]:
    tokens = " ".join(
        f"the-{role}:{role}:{hashlib.sha256(f'{role}-secret'.encode()).hexdigest()}"
        for role in Role
    )
    with application(database_url, QUEUE_TOKENS=tokens) as app:
        yield app


@pytest.fixture
def failed_job(session: Session) -> int:
    job_id = make_job(session, Status.FAILED).id
    session.commit()
    return job_id


@pytest.mark.parametrize("role", Role)
def test_each_role_sees_and_does_what_it_may(
    guarded: Flask, session: Session, failed_job: int, role: Role
) -> None:
    client, as_role = guarded.test_client(), {"Authorization": f"Bearer {role}-secret"}

    looks = {path: client.get(path, headers=as_role) for path in LOOK}
    refused = [client.get(path, headers=as_role).status_code == 403 for path in ACT]
    refused += [client.post(path, headers=as_role).status_code == 403 for path in ACT]

    assert {answer.status_code for answer in looks.values()} == {200 if role in LOOKERS else 403}
    assert set(refused) == {role not in ACTORS}
    buttons = 'data-verb="retry"' in looks["/jobs"].text + looks["/jobs/1"].text
    assert buttons is (role in ACTORS)
    session.rollback()
    assert queries.get_job(session, failed_job).status == (
        "failed" if role not in ACTORS else "cancelled"
    )


def test_the_ledger_knows_who_pressed_the_button(
    guarded: Flask, session: Session, failed_job: int
) -> None:
    as_operator = {"Authorization": "Bearer operator-secret"}

    guarded.test_client().post("/jobs/1/retry", headers=as_operator)

    assert queries.events_of(session, failed_job)[-1].actor == "token:the-operator"


@pytest.mark.parametrize("path", LOOK + ACT)
def test_nobody_from_elsewhere_gets_in_without_credentials(guarded: Flask, path: str) -> None:
    client = guarded.test_client()

    answer = client.get(path, environ_overrides={"REMOTE_ADDR": "203.0.113.7"})

    assert answer.status_code == 403
    assert "http://127.0.0.1" in answer.text


def test_a_page_of_another_site_acts_for_nobody(client: FlaskClient) -> None:
    fills = {"job_id": "1", "verb": "hold", "kind": "demo.echo"}
    posts = []
    for rule in client.application.url_map.iter_rules():
        if rule.endpoint.startswith("console.") and "POST" in (rule.methods or ()):
            filled = {name: fills.get(name, "0123456789abcdef") for name in rule.arguments}
            posts.append((rule.build(filled) or ("", ""))[1])

    assert len(posts) > 12
    for path in posts:
        for told in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "same-site"}):
            assert client.post(path, headers=told).status_code == 403, path
        # Of our own pages it is looked at.
        assert client.post(path).status_code != 403, path
