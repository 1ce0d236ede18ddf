"""The log: newest first, narrowed by its address, read to its end."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.console import events as events_page
from queueapp.jobs.models import JobEvent
from queueapp.jobs.queries import ledger
from queueapp.jobs.status import Status
from tests.console.conftest import Console, words
from tests.console.test_jobs import link
from tests.factories import make_job


def event_ids(page: str) -> list[int]:
    return [int(found) for found in re.findall(r'<tr id="event-(\d+)"', page)]


def test_the_log_is_narrowed_by_its_address(console: Console, session: Session) -> None:
    job = make_job(session, Status.SUCCEEDED, kind="mail.send")
    make_job(session)
    session.commit()

    assert len(event_ids(console.get("/events"))) == 4
    assert len(event_ids(console.get(f"/events?job={job.id}"))) == 3
    assert len(event_ids(console.get("/events?kind=mail.send&event=claimed"))) == 1
    assert len(event_ids(console.get("/events?actor=app&event=enqueued"))) == 2
    assert len(event_ids(console.get("/events?since=-1h"))) == 4
    assert event_ids(console.get("/events?until=-1h")) == []
    assert event_ids(console.get(f"/events?until=-1h&job={job.id}")) == []


def test_the_log_pages_to_its_beginning(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_page, "ROWS", 2)
    for _ in range(2):
        make_job(session, Status.SUCCEEDED)
        session.commit()

    seen, page = event_ids(console.get("/events")), console.get("/events")
    assert "every 2s" in page
    while (older := link(page, "next")) and len(seen) < 10:
        page = console.get(older)
        seen += event_ids(page)

    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) == 6
    assert "every 2s" not in page


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("event=foo", "There is no event “foo”."),
        ("job=abc", "“abc” is no job id: they are"),
        ("job=99999999999999999999", "is no job id: they are"),
        ("worker=x", "There is no filter “worker”."),
        ("kind=a&kind=b", "Only one kind can be asked for, not “a” and “b”."),
        ("since=soon", "“soon” is no time"),
        ("since=-1h&until=-2h", "No time lies between"),
        ("actor=%00", "No event has such a actor."),
    ],
)
def test_a_filter_that_cannot_match_is_said_not_ignored(
    console: Console, session: Session, query: str, said: str
) -> None:
    make_job(session)
    session.commit()

    page = console.get(f"/events?{query}")

    assert said in words(page)
    assert event_ids(page) == []


def test_events_of_the_queue_show_their_scope(console: Console, session: Session) -> None:
    session.add(JobEvent(scope="worker:w1", event="worker_seen", actor="worker:w1"))
    session.commit()

    shown = words(console.get("/events"))

    assert "worker seen – worker:w1" in shown


def test_a_narrowed_log_that_did_not_look_at_everything_says_so(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "SCAN_LIMIT", 2)
    make_job(session, kind="rare.kind")
    for _ in range(3):
        make_job(session)
    session.commit()

    page = console.get("/events?kind=rare.kind")
    further = link(page, "next")
    assert further is not None
    assert len(event_ids(console.get(further))) == 1


def test_empty_fields_of_a_form_leave_the_address(client: FlaskClient) -> None:
    answer = client.get("/events?event=&job=&kind=a&actor=")

    assert (answer.status_code, answer.headers["Location"]) == (302, "/events?kind=a")


def test_a_place_that_is_none_is_the_beginning(console: Console, session: Session) -> None:
    make_job(session)
    session.commit()

    assert len(event_ids(console.get("/events?before=abc"))) == 1
