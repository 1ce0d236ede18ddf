"""The database goes away in the middle: every page stays whole, and goes on by itself after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp import shared
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from tests.applications import application
from tests.console.conftest import PANEL, words
from tests.console.test_operation_page import plan
from tests.factories import make_job
from tests.live.proxy import Proxy

pytestmark = pytest.mark.postgresql("a server that goes away")

# What the addresses of the pages are filled with; a page with another part is added here.
PARTS = {"job_id": "1", "kind": "demo.echo", "name": "test:1:000000"}
QUERIES = {
    "/go": "?q=1",
    "/jobs/bulk": "?verb=retry&id=1",
    "/operations/new": "?status=failed",
    "/workers/drain": "?worker=test:1:000000",
    "/workers/release": "?worker=test:1:000000",
}
VERBS = {"console.ask": "retry", "console.ask_kind": "hold"}
# They show nothing of the database, or how long ago it was.
WITHOUT = {"/", "/help", "/settings", "/login"}
# What was read for all tabs outlives the database for a moment.
KEPT = ("/", "/kinds", "/kinds/demo.echo", "/workers", "/system")


@pytest.fixture
def line(database_url: str) -> Iterator[Proxy]:
    proxy = Proxy(database_url)
    yield proxy
    proxy.close()


@pytest.fixture
def behind(line: Proxy) -> Iterator[FlaskClient]:
    """The console of an application that reaches its database through ``line``."""
    with application(line.url) as app:
        yield app.test_client()


def every_page(app: Flask, session: Session) -> list[str]:
    """The address of every page there is, over a queue in which each has something to show."""
    failed = make_job(session, Status.FAILED)
    make_job(session, Status.RUNNING)
    session.commit()
    fingerprint = session.get_one(Job, failed.id).error_fingerprint
    operation, _ids = plan(session, 2)
    known = {**PARTS, "fingerprint": fingerprint, "operation_id": operation.rpartition("/")[2]}
    found = []
    for rule in app.url_map.iter_rules():
        if rule.endpoint.startswith("console.") and "GET" in (rule.methods or ()):
            parts = {name: known.get(name, VERBS.get(rule.endpoint)) for name in rule.arguments}
            _, path = rule.build(parts) or ("", "")
            found.append(path + QUERIES.get(path, ""))
    return sorted(found)


def test_every_page_stays_whole_without_the_database_and_goes_on_after_it(
    behind: FlaskClient, line: Proxy, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = every_page(behind.application, session)
    before = {path: behind.get(path).status_code for path in pages}
    assert {path for path, status in before.items() if status not in (200, 302)} <= {"/login"}
    assert len(pages) > 25

    line.refuse()
    for path in KEPT:
        page = behind.get(path)
        assert page.status_code == 200, path
        assert datetime.fromisoformat(page.headers["Queue-As-Of"]) < datetime.now(UTC)
    # After a while what was read says nothing of now.
    monkeypatch.setattr(shared, "OLD_S", -1.0)
    first = behind.get("/")
    assert first.status_code == 200
    assert "could not be read: the database does not answer; what stands below" in first.text
    # Another web process has its own, of another age.
    assert re.search(r"was last read by this web process .{1,20}? ago\.", words(first.text))
    assert first.headers["Queue-Verdict"] == "unknown Unknown"
    for path in pages:
        page, panel = behind.get(path), behind.get(path, headers=PANEL)
        if path in WITHOUT:
            assert page.status_code == before[path], path
            continue
        assert page.status_code == panel.status_code == 503, path
        assert page.text.startswith("<!doctype html>"), path
        assert page.text.rstrip().endswith("</html>"), path
        assert "The database is not available" in words(page.text), path
        assert "asks again every 10 seconds" in words(page.text), path
        assert page.headers["Refresh"] == "10", path
        # The script takes it as a reason to keep what is there, and to ask again later.
        assert panel.text.startswith("<div hx-swap-oob"), path
        assert panel.headers["Retry-After"] == "5", path
        assert "Refresh" not in panel.headers, path

    line.admit()
    monkeypatch.undo()
    assert {path: behind.get(path).status_code for path in pages} == before
    assert "Refresh" not in behind.get("/jobs").headers


def test_nothing_that_was_to_be_done_is_sent_again_by_itself(
    behind: FlaskClient, line: Proxy
) -> None:
    line.refuse()

    answer = behind.post("/jobs/1/retry")

    assert answer.status_code == 503
    assert "Refresh" not in answer.headers
    assert "by itself" not in answer.text


def test_a_panel_that_asks_by_itself_takes_what_another_has_had_read(
    behind: FlaskClient, line: Proxy, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    timed = PANEL | {"Queue-Timer": "1"}
    for reading in _shared_by(behind.application):
        monkeypatch.setattr(reading, "life_s", 60.0)
    first = {path: behind.get(path, headers=timed) for path in SHARED}
    asked = len(line.asked)

    again = {
        path: behind.get(path, headers=timed | {"HX-PTag": answer.headers["HX-PTag"]})
        for path, answer in first.items()
    }
    others = {path: behind.get(path, headers=timed) for path in SHARED}

    assert {answer.status_code for answer in again.values()} == {304}
    assert {path: other.text for path, other in others.items()} == {
        path: answer.text for path, answer in first.items()
    }
    assert len(line.asked) == asked, "the database was asked for nothing"
    # Whoever asks himself is told of now.
    behind.get("/jobs", headers=PANEL)
    assert len(line.asked) > asked


SHARED = (
    "/", "/jobs", "/jobs?status=failed", "/errors", "/events", "/kinds", "/workers",
    "/operations", "/system",
)  # fmt: skip


def _shared_by(app: Flask) -> list[object]:
    found = app.extensions
    names = ("queue_look", "queue_overview", "queue_pulse", "queue_causes", "queue_kinds",
             "queue_roll", "queue_glances")  # fmt: skip
    return [*(found[name] for name in names), *found["queue_system"].values()]
