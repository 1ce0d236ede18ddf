"""However many tabs are open, the database is asked as for one; and the pages outlive it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask, template_rendered

from queueapp import judgement, shared
from queueapp.console import overview
from queueapp.database_address import place_of
from queueapp.extensions import db
from queueapp.jobs.queries import clock, depth, failures, line
from queueapp.jobs.status import Status
from queueapp.jobs.verdict import statements
from tests.applications import NOWHERE, application
from tests.console.conftest import PANEL, words
from tests.factories import make_job
from tests.jobs.plans import statements_of
from tests.live.proxy import Proxy
from tests.scenes import Scene

TABS = 50


@pytest.fixture
def sharing(fresh_app: Flask, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """The application as it is outside tests: what was read serves for a while.

    However long fifty tabs take on a busy machine, it does not grow old meanwhile.
    """
    monkeypatch.setattr(shared, "OLD_S", 600.0)
    for reading in (judgement.shared(fresh_app), overview.shared(fresh_app)):
        assert reading.life_s == 0
        reading.life_s = 600.0
    return fresh_app


def open_tabs(app: Flask, *paths: str, tag: str | None = None) -> list[Any]:
    """Ask for all of the paths at the same moment, a thread each."""
    barrier = threading.Barrier(len(paths))
    headers = PANEL | ({"HX-PTag": tag} if tag else {})

    def ask(path: str) -> Any:
        client = app.test_client()
        barrier.wait(60)
        return client.get(path, headers=headers)

    with ThreadPoolExecutor(len(paths)) as pool:
        return list(pool.map(ask, paths))


@pytest.mark.postgresql("statements")
def test_fifty_tabs_cost_what_one_costs(sharing: Flask, session: Any) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    with sharing.app_context():
        engine = db.engine

    with statements_of(engine) as sent:
        answers = open_tabs(sharing, *["/"] * TABS)
    with statements_of(engine) as sent_again:
        again = open_tabs(sharing, *["/"] * TABS, tag=answers[0].headers["HX-PTag"])
        beside = open_tabs(sharing, *["/healthz", "/api/verdict"] * 10)

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.headers["HX-PTag"] for answer in answers}) == 1
    texts = [text for text, _ in sent]
    assert texts.count(statements.LINE) == texts.count(depth._OTHER_COUNTS) == 1
    # Of the page, and of the counts that it shares with others.
    assert texts.count(clock._PULSE) == 2
    assert len(sent) <= 22
    assert {answer.status_code for answer in again} == {304}
    assert {answer.status_code for answer in beside} == {200}
    assert sent_again == []


@pytest.mark.postgresql("statements")
def test_polls_of_other_pages_carry_the_same_verdict(sharing: Flask, session: Any) -> None:
    scene = Scene(session)
    scene.due(500)
    with sharing.app_context():
        engine = db.engine

    with statements_of(engine) as sent:
        answers = open_tabs(sharing, *["/jobs", "/events"] * 8)

    assert {answer.headers["Queue-Verdict"] for answer in answers} == {"red No workers"}
    assert [text for text, _ in sent].count(statements.LINE) == 1


@pytest.mark.postgresql("statements")
def test_many_tabs_read_the_failures_once(sharing: Flask, session: Any) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    sharing.extensions["queue_causes"].life_s = 600.0
    with sharing.app_context():
        engine = db.engine

    with statements_of(engine) as sent:
        answers = open_tabs(sharing, *["/errors", "/errors?kind=demo.echo"] * 5)
    again = open_tabs(sharing, "/errors", tag=answers[0].headers["HX-PTag"])

    assert {answer.status_code for answer in answers} == {200}
    texts = [text for text, _ in sent]
    assert texts.count(failures._NEWEST) == texts.count(line._WAITING) == 1
    assert [answer.status_code for answer in again] == [304]


def test_a_panel_is_drawn_once_for_all_tabs_of_one_host(sharing: Flask, session: Any) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    sharing.extensions["queue_causes"].life_s = 600.0
    drawn: list[str] = []

    def note(_sender: Any, template: Any, **_: Any) -> None:
        drawn.append(template.name)

    with template_rendered.connected_to(note, sharing):
        for path in ("/", "/errors"):
            texts = {sharing.test_client().get(path, headers=PANEL).text for _ in range(3)}
            assert len(texts) == 1
        sharing.test_client().get("/", headers=PANEL, base_url="http://127.0.0.1/")

    assert drawn == ["fragments/now.html", "fragments/errors.html", "fragments/now.html"]


@pytest.fixture
def proxied(database_url: str) -> Iterator[tuple[Flask, Proxy]]:
    proxy = Proxy(database_url)
    with application(proxy.url) as app:
        yield app, proxy
    proxy.close()


@pytest.mark.postgresql("a server that goes away")
def test_without_the_database_the_page_stays_and_turns_grey(
    proxied: tuple[Flask, Proxy], session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, proxy = proxied
    scene = Scene(session)
    scene.worker()
    scene.minutes(succeeded=30)
    scene.ended(5)
    client = app.test_client()
    assert "Healthy" in client.get("/").text
    proxy.close()

    # For a moment what was read still says something.
    assert "Healthy" in client.get("/").text
    monkeypatch.setattr(shared, "OLD_S", 0.0)
    answer = client.get("/")

    assert answer.status_code == 200
    shown = words(answer.text)
    assert "Unknown The queue could not be read: the database does not answer; what" in shown
    assert "came and ended per minute 0 / 30" in shown
    # No page would tell more.
    assert f"Next: Does PostgreSQL run at {place_of(proxy.url)}, and does it take" in shown
    assert answer.text.partition("<b>Next:</b>")[2].lstrip().startswith("Does PostgreSQL run")
    found = client.get("/healthz").json
    assert found is not None
    assert (found["status"], found["verdict"]) == ("ok", "unknown")
    # A page that was never read before has nothing to show.
    assert client.get("/jobs").status_code == 503


def test_a_page_without_any_reading_says_that_there_is_no_database() -> None:
    none = "0123456789abcdef"
    paths = ("/", "/errors", f"/errors/{none}", f"/operations/{none}", "/workers", "/system")
    with application(NOWHERE) as app:
        answers = [app.test_client().get(path) for path in paths]

    assert {(answer.status_code, answer.headers["Retry-After"]) for answer in answers} == {
        (503, "5")
    }
    assert all("database" in words(answer.text) for answer in answers)


def test_what_is_shared_holds_no_connection(sharing: Flask) -> None:
    sharing.test_client().get("/")

    with sharing.app_context():
        pool: Any = db.engine.pool
    assert pool.checkedout() == 0


@pytest.mark.postgresql("statements")
def test_the_numbers_of_a_filter_are_counted_once_for_all_tabs(
    sharing: Flask, session: Any
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    sharing.extensions["queue_pulse"].life_s = 600.0
    client, path = sharing.test_client(), "/jobs?kind=demo.echo"
    with sharing.app_context():
        engine = db.engine

    with statements_of(engine) as sent:
        tabs = [client.get(path, headers=PANEL | {"Queue-Timer": "1"}) for _ in range(5)]

    assert {tab.status_code for tab in tabs} == {200}
    assert len({tab.text for tab in tabs}) == 1
    assert len([text for text, _ in sent if "GROUP BY jobs.status" in text]) == 1
