"""Who may look and who may act: the server decides, the buttons follow."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.auth import Role
from queueapp.jobs import control, operations, queries
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.applications import application
from tests.console.conftest import words
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


NEEDS_NO_JOB = ("/", "/jobs", "/kinds/demo.echo")


def cause_of(session: Session, job_id: int) -> str:
    return f"/errors/{queries.get_job(session, job_id).error_fingerprint}"


def planned(session: Session) -> str:
    where = JobFilter(status=(Status.FAILED,))
    found = operations.survey(session, "retry", where)
    made = operations.plan(session, found, how={}, actor="user:ana", reason="because")
    session.commit()
    return f"/operations/{made.id}"


def test_who_may_not_press_a_button_sees_it_out_of_use_and_for_whom_it_is(
    guarded: Flask, session: Session, failed_job: int
) -> None:
    client, as_viewer = guarded.test_client(), {"Authorization": "Bearer viewer-secret"}
    paths = (*NEEDS_NO_JOB, f"/jobs/{failed_job}", cause_of(session, failed_job), planned(session))

    for path in paths:
        page = client.get(path, headers=as_viewer).text
        buttons = re.findall(r"<button[^>]* disabled[^>]*>", page)
        assert buttons, path
        assert all('title="for ' in one and "you are viewer" in one for one in buttons), path
        assert "for operators and admins" in words(page), path
        # Nothing leads to what would be refused.
        assert "data-verb" not in page, path
        assert not re.search(r'(?:href|action)="/(?:pause|jobs/\d+/\w+|kinds/[^"]+/hold)"', page)
    as_operator = {"Authorization": "Bearer operator-secret"}
    page = client.get(f"/jobs/{failed_job}", headers=as_operator).text
    assert 'title="for admins; you are operator">' in page
    for verb in ("clone", "purge"):
        assert f'href="/jobs/{failed_job}/{verb}"' not in page
        assert f"{verb.capitalize()}</button>" in page
    assert 'data-verb="retry"' in page


def test_the_buttons_of_rows_and_sentences_are_out_of_use_as_well(
    guarded: Flask, session: Session, failed_job: int
) -> None:
    running = make_job(session, Status.RUNNING).id
    waiting = make_job(session, Status.QUEUED).id
    control.pause(session, actor="user:ana", reason="because")
    session.commit()
    client, as_viewer = guarded.test_client(), {"Authorization": "Bearer viewer-secret"}

    rows = {job_id: row_of(client.get("/jobs", headers=as_viewer).text, f"job-{job_id}")
            for job_id in (failed_job, running, waiting)}  # fmt: skip
    longest = row_of(client.get("/", headers=as_viewer).text, f"longest-{running}")
    why = client.get(f"/jobs/{waiting}", headers=as_viewer).text.partition('class="why"')[2]

    off = "for operators and admins; you are viewer"
    told = re.compile(rf'<button[^>]* disabled title="{off}">(?:<svg.*?</svg>)?([^<]+)</button>')
    assert {job_id: told.findall(row) for job_id, row in rows.items()} == {
        failed_job: ["Retry"], running: ["Cancel"], waiting: ["Cancel"],
    }  # fmt: skip
    assert told.findall(longest) == ["Cancel"]
    assert told.findall(why.partition("</section>")[0]) == ["Resume the queue"]
    assert "data-verb" not in rows[failed_job] + longest + why


def test_the_button_that_plans_a_stopped_operation_again_is_out_of_use_too(
    guarded: Flask, session: Session, failed_job: int
) -> None:
    client, place = guarded.test_client(), planned(session)
    client.post(f"{place}/stop", headers={"Authorization": "Bearer operator-secret"})

    page = client.get(place, headers={"Authorization": "Bearer viewer-secret"}).text

    assert re.search(r'<button[^>]* disabled title="for [^"]+viewer">Plan it again<', page)
    assert "/operations/new" not in page


def row_of(page: str, row_id: str) -> str:
    """The row of a table by its id."""
    return page.partition(f'<tr id="{row_id}"')[2].partition("</tr>")[0]


def test_where_nobody_may_there_is_no_button(
    database_url: str, session: Session, failed_job: int
) -> None:
    token = hashlib.sha256(b"viewer-secret").hexdigest()
    with application(database_url, QUEUE_TOKENS=f"vic:viewer:{token}") as app:
        client, as_viewer = app.test_client(), {"Authorization": "Bearer viewer-secret"}
        for path in (*NEEDS_NO_JOB, f"/jobs/{failed_job}", cause_of(session, failed_job)):
            page = client.get(path, headers=as_viewer).text
            assert "for operators and admins" not in page, path
            assert not re.search(r"<button[^>]* disabled", page), path


@pytest.mark.parametrize(
    ("role", "path", "who"),
    [
        ("viewer", "/pause", "operators and admins may"),
        ("viewer", "/operations/new", "operators and admins may"),
        ("viewer", "/jobs/1/clone", "admins may"),
        ("operator", "/jobs/1/clone", "admins may"),
        ("viewer", "/jobs/1/purge", "admins may"),
        ("operator", "/jobs/1/purge", "admins may"),
        ("operator", "/jobs/bulk?verb=purge&id=1", "admins may"),
    ],
)
def test_a_refusal_says_who_may_and_does_not_ask_to_try_again(
    guarded: Flask, failed_job: int, role: str, path: str, who: str
) -> None:
    client, as_role = guarded.test_client(), {"Authorization": f"Bearer {role}-secret"}

    answer = client.get(path, headers=as_role)

    text = words(answer.text)
    assert answer.status_code == 403
    assert f"The role {role} may not" in text
    assert f"you are token:the-{role}; {who}." in text
    assert "Try again" not in text
