"""Every page: one address, two bodies; nothing is sent again that has not changed."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.extensions import db
from queueapp.jobs import transitions
from queueapp.jobs.failure import described
from queueapp.jobs.status import Status
from tests.applications import NOWHERE, application
from tests.console.conftest import PANEL, Console, words
from tests.factories import make_job
from tests.jobs.plans import statements_of

PAGES = ["/", "/jobs", "/jobs?status=failed", "/jobs/1", "/events", "/events?job=1", "/operations"]
# Whose marks are of other things than jobs.
OTHERS = ["/kinds", "/kinds/demo.echo", "/workers", "/workers/test:1:000000", "/system"]
RELEASE = "/workers/release?worker=test:1:000000"
# As browsers ask without https.
ZIPPED = {"Accept-Encoding": "gzip, deflate"}
CAUSES = ["/errors", f"/errors/{described('ValueError', 'no such thing').fingerprint}"]


@pytest.fixture
def failed_job(session: Session) -> int:
    job_id = make_job(session, Status.FAILED).id
    make_job(session, Status.RUNNING)
    session.commit()
    return job_id


@pytest.mark.parametrize("path", [*PAGES, *OTHERS])
def test_a_page_contains_the_very_panel_that_its_script_gets(
    console: Console, failed_job: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the server tells is another thing at each look.
    for shared in console.client.application.extensions["queue_system"].values():
        monkeypatch.setattr(shared, "life_s", 60.0)
        shared.forget()
    page, panel = console.get(path), console.panel(path)

    assert panel.text.startswith('<section id="panel"')
    assert panel.text.endswith("</section>")
    assert _without_times(panel.text) in _without_times(page)
    assert panel.headers["Vary"] == "HX-Request-Type, HX-Target, Accept-Encoding"
    assert panel.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", PAGES)
def test_a_panel_that_has_not_changed_is_not_sent_again(
    console: Console, session: Session, failed_job: int, path: str
) -> None:
    same = console.unchanged(path)
    tag = same.headers["HX-PTag"]

    assert same.data == b""
    assert same.headers["Queue-As-Of"].endswith("Z")
    assert len(re.findall(r'hx-ptag="\w+"', console.get(path))) == 1

    transitions.requeue(session, [failed_job], actor="user:ana")
    session.commit()
    changed = console.panel(path, tag)
    assert changed.status_code == 200
    assert changed.headers["HX-PTag"] != tag


@pytest.mark.parametrize("path", OTHERS[:2])
def test_a_page_of_workers_changes_with_what_they_hold(
    console: Console, session: Session, failed_job: int, path: str
) -> None:
    tag = console.unchanged(path).headers["HX-PTag"]

    make_job(session, Status.RUNNING)
    session.commit()

    assert console.panel(path, tag).status_code == 200


def test_the_mark_of_one_address_is_nothing_to_another(console: Console, failed_job: int) -> None:
    tag = console.panel("/jobs").headers["HX-PTag"]

    assert console.panel("/jobs?status=failed", tag).status_code == 200


def test_progress_and_a_renewed_lease_change_the_page_of_the_job(
    console: Console, session: Session
) -> None:
    job = make_job(session, Status.RUNNING)
    session.commit()
    tags = [console.panel(f"/jobs/{job.id}").headers["HX-PTag"]]

    for change in ("progress = 7", "lease_expires_at = now() + interval '1 hour'"):
        session.execute(sa.text(f"UPDATE jobs SET {change}"))
        session.commit()
        tags.append(console.panel(f"/jobs/{job.id}").headers["HX-PTag"])

    assert len(set(tags)) == 3


@pytest.mark.postgresql("round trips")
@pytest.mark.parametrize(
    ("path", "most"),
    [("/jobs", 8), ("/jobs/1", 6), ("/events", 3), ("/events?kind=a", 4)],
)
def test_a_panel_takes_few_statements_and_an_unchanged_one_one(
    app: Flask, console: Console, failed_job: int, path: str, most: int
) -> None:
    with app.app_context():
        engine = db.engine

    with statements_of(engine) as sent:
        console.panel(path)
    same = console.unchanged(path)
    with statements_of(engine) as sent_again:
        answer = console.panel(path, same.headers["HX-PTag"])
    looks = 1
    # A transaction open elsewhere on the server, such as autovacuum's, asks for another look.
    while answer.status_code != 304 and looks < 20:
        same, looks = console.unchanged(path), looks + 1
        with statements_of(engine) as sent_again:
            answer = console.panel(path, same.headers["HX-PTag"])

    assert answer.status_code == 304
    assert len(sent) <= most
    # The pulse.
    assert len(sent_again) == 1


def test_a_restored_or_foreign_target_gets_the_whole_page(client: FlaskClient) -> None:
    headers = {"HX-Request": "true", "HX-Request-Type": "partial", "HX-Target": "body"}

    assert client.get("/jobs", headers=headers).text.startswith("<!doctype html>")


@pytest.mark.parametrize("path", ["/jobs/99", "/jobs/0", f"/jobs/{2**70}", "/jobs/99/retry"])
def test_a_job_that_is_not_there_is_said_to_be_missing(client: FlaskClient, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 404
    assert "No such job" in words(answer.text)


def test_without_a_database_the_page_says_so_and_the_panel_is_left_alone() -> None:
    with application(NOWHERE) as app:
        page, panel = app.test_client().get("/"), Console(app.test_client()).panel("/")

    assert page.status_code == panel.status_code == 503
    assert "The database is not available" in words(page.text)
    assert "Try again" in page.text
    assert panel.text.startswith("<div hx-swap-oob")


def test_an_address_without_a_page_leads_back(client: FlaskClient) -> None:
    answer = client.get("/nowhere")

    assert answer.status_code == 404
    assert 'href="/jobs"' in answer.text


@pytest.mark.parametrize("path", ["//elsewhere.example/x", "/\\elsewhere.example/x"])
def test_an_address_that_names_another_host_does_not_lead_there(
    client: FlaskClient, path: str
) -> None:
    answer = client.get("/", environ_overrides={"PATH_INFO": path})

    assert answer.status_code == 404
    links = re.findall(r'(?:href|action)="([^"]*)"', answer.text)
    assert any("elsewhere" in link for link in links)
    assert [link for link in links if link.startswith(("//", "/\\"))] == []


def test_a_failure_in_a_refresh_is_a_notice_not_a_page(console: Console) -> None:
    answer = console.panel("/jobs/99")

    assert answer.status_code == 404
    assert answer.text.startswith("<div hx-swap-oob")


def test_static_files_are_kept_until_they_change(client: FlaskClient) -> None:
    page = client.get("/").text

    for url in re.findall(r'(?:href|src)="(/static/[^"]+)"', page):
        answer = client.get(url.partition("#")[0])
        assert answer.status_code == 200, url
        assert "immutable" in answer.headers["Cache-Control"]
        answer.close()
    assert "v=" in page


def test_no_page_has_anything_inline_or_from_elsewhere(console: Console, failed_job: int) -> None:
    asked = ["/jobs/1/retry", "/jobs/bulk?verb=retry&id=1", RELEASE]
    for path in [*PAGES, *OTHERS, *CAUSES, *asked]:
        page = console.get(path)
        assert not re.search(r"\sstyle=|<style|\son\w+=|hx-on|javascript:|<script(?! src)", page)
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page)


@pytest.mark.parametrize(
    "path", [*PAGES, *OTHERS, *CAUSES, RELEASE, "/jobs/1/retry", "/jobs/99", "/jobs?priority=x"]
)
def test_under_a_prefix_every_address_has_it(
    client: FlaskClient, failed_job: int, path: str
) -> None:
    page = client.get(path, environ_overrides={"SCRIPT_NAME": "/ops"}).text

    found = re.findall(r'(?:href|src|action|hx-get|hx-post|value)="(/[^"]*)"', page)
    assert found
    assert [url for url in found if not url.startswith("/ops/")] == []


def test_the_first_page_is_small(client: FlaskClient) -> None:
    page = client.get("/").text
    asked = re.findall(r'<(?:script|link)[^>]+(?:src|href)="([^"]+)"', page)
    asked += re.findall(r'<use href="([^"#]+)', page)
    addresses = {"/"} | {address for address in asked if not address.startswith("data:")}

    answers = [client.get(address, headers=ZIPPED) for address in addresses]

    assert {answer.status_code for answer in answers} == {200}
    assert len(addresses) == 6
    assert sum(len(answer.data) for answer in answers) < 60_000


def test_a_poll_of_a_hundred_rows_is_small(client: FlaskClient, session: Session) -> None:
    for number in range(130):
        make_job(session, Status.FAILED if number % 3 else Status.QUEUED, kind=f"a.b{number % 9}")
    session.commit()

    for path in ("/", "/jobs", "/events", "/errors", "/kinds", "/audit"):
        panel = client.get(path, headers=PANEL | ZIPPED)
        assert panel.status_code == 200
        assert len(panel.data) < 15_000, path


@pytest.mark.parametrize(("cookie", "shown"), [("dark", 'data-theme="dark"'), ("x", ""), ("", "")])
def test_the_theme_of_the_cookie_is_there_from_the_first_paint(
    client: FlaskClient, cookie: str, shown: str
) -> None:
    client.set_cookie("theme", cookie)

    assert client.get("/").text.splitlines()[1] == f'<html lang="en"{" " if shown else ""}{shown}>'


def test_a_browser_without_scripts_may_ask_for_reloads(client: FlaskClient) -> None:
    assert client.get("/?refresh=10").headers["Refresh"] == "10"
    assert "Refresh" not in client.get("/?refresh=1").headers
    assert "?refresh=10" in client.get("/").text


def test_the_link_to_reloads_keeps_the_filter_and_no_question_reloads(console: Console) -> None:
    page = console.get("/jobs?status=failed&kind=a.b&refresh=5&done=retry.1.0.0")

    assert 'href="/jobs?status=failed&amp;kind=a.b&amp;refresh=10"' in page
    assert "refresh=" not in console.get("/jobs/bulk?verb=retry")


def _without_times(text: str) -> str:
    text = re.sub(r"(<time[^>]*>)[^<]*", r"\1", text)
    return re.sub(r'hx-ptag="\w+"| (?:x|width)="[\d.]+"', "", text)
