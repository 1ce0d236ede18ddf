"""The list of jobs: the address says all, no row is lost between pages, nothing is ignored."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.console import jobs as jobs_page
from queueapp.extensions import db
from queueapp.jobs import control
from queueapp.jobs.queries import candidates, listing
from queueapp.jobs.status import Status
from tests.console.conftest import PANEL, Console, job_ids, words
from tests.factories import make_job
from tests.jobs.plans import statements_of


@pytest.fixture
def three_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_page, "ROWS", 3)


def link(page: str, rel: str) -> str | None:
    found = re.search(rf'rel="{rel}" href="([^"]+)"', page)
    return found[1].replace("&amp;", "&") if found else None


@pytest.mark.parametrize(
    "query",
    [
        "status=failed",
        "status=failed&status=held",
        "kind=mail.send",
        "producer=shop",
        "priority=-3",
        "key=order-1",
        "fingerprint=abc",
        "since=-1h",
        "since=-1h&until=2200-01-01T00:00:00.000Z",
        "attempts=3",
        "attempts=%3E%3D2",
        "payload.order.id=42",
        "payload.order.id=42&payload.paid=true",
        "status=failed&kind=mail.send&producer=shop&priority=-3&fingerprint=abc&key=order-1",
    ],
)
def test_the_address_narrows_the_list(console: Console, session: Session, query: str) -> None:
    make_job(session, created_at=datetime.now(UTC) - timedelta(days=2))
    wanted = make_job(
        session,
        Status.FAILED,
        kind="mail.send",
        attempts=3,
        payload={"order": {"id": "42"}, "paid": True},
        producer="shop",
        priority=-3,
        key="order-1",
        request_hash="x",
        error_fingerprint="abc",
    )
    session.commit()

    assert job_ids(console.get(f"/jobs?{query}")) == [wanted.id]


def test_each_view_of_the_queued_is_a_status_of_its_own(console: Console, session: Session) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    due = make_job(session).id
    scheduled = make_job(session, available_at=later).id
    retrying = make_job(session, available_at=later, attempts=2).id
    session.commit()

    assert job_ids(console.get("/jobs?status=due")) == [due]
    assert job_ids(console.get("/jobs?status=scheduled")) == [retrying, scheduled]
    assert job_ids(console.get("/jobs?status=retrying")) == [retrying]
    shown = words(console.get("/jobs"))
    assert "queued 3 due 1 scheduled 2 retrying 1" in shown
    assert "due in 59 min" in shown


def test_what_has_happened_is_so_long_ago(console: Console, session: Session) -> None:
    ended = datetime.now(UTC) - timedelta(minutes=5)
    make_job(session, Status.SUCCEEDED, finished_at=ended)
    session.commit()

    assert re.search(r"ended 5 min \d s ago", words(console.get("/jobs")))


def test_a_worker_is_found_by_the_name_that_pages_show(console: Console, session: Session) -> None:
    running = make_job(session, Status.RUNNING, locked_by="worker:web-3:4711:9c").id
    make_job(session, Status.RUNNING, locked_by="web-4:4711:9c")
    session.commit()

    for name in ("web-3:4711:9c", "worker:web-3:4711:9c"):
        assert job_ids(console.get(f"/jobs?worker={name}")) == [running]
    assert len(job_ids(console.get("/jobs?worker=web-4:4711:9c"))) == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("status=foo", "There is no status “foo”."),
        ("status=due&status=failed", "cannot be combined"),
        ("priority=abc", "“abc” is no priority"),
        ("priority=99999", "“99999” is no priority"),
        ("task=mail", "There is no filter “task”."),
        ("kind=a&kind=&kind=b", "Only one kind can be asked for, not “a” and “b”."),
        ("since=5m&since=1h", "Only one since can be asked for, not “5m” and “1h”."),
        ("kind=%00", "No job has such a kind."),
        ("worker=%00", "No job has such a worker."),
        ("since=yesterday", "“yesterday” is no time"),
        ("since=-1h&until=-2h", "No time lies between"),
        ("attempts=many", "“many” is no number of attempts"),
        ("payload..a=1", "“.a” is no field of a payload"),
        ("payload=a", "“a” has no value"),
        ("payload.a=1&payload.a=2", "has one value, not two"),
        ("payload.a=%00", "No payload holds such a text"),
    ],
)
def test_a_filter_that_cannot_match_is_said_not_ignored(
    console: Console, session: Session, query: str, said: str
) -> None:
    make_job(session)
    session.commit()

    page = console.get(f"/jobs?{query}")

    assert said in words(page)
    assert job_ids(page) == []


def test_pages_lead_through_every_job_and_back(
    console: Console, session: Session, three_a_page: None
) -> None:
    made = [make_job(session, kind="a.b").id for _ in range(8)][::-1]
    make_job(session)
    session.commit()

    seen, page = [], console.get("/jobs?kind=a.b")
    assert link(page, "prev") is None
    while True:
        seen += job_ids(page)
        older = link(page, "next")
        if older is None:
            break
        assert "kind=a.b" in older
        page = console.get(older)
    assert seen == made

    newer = link(page, "prev")
    assert newer is not None
    assert job_ids(console.get(newer)) == made[3:6]
    top = console.get(link(console.get(newer), "prev") or "")
    assert job_ids(top) == made[:3]
    assert link(top, "prev") is None


def test_empty_fields_of_a_form_leave_the_address(client: FlaskClient) -> None:
    answer = client.get("/jobs?kind=mail.send&producer=&status=failed&priority=+")

    assert answer.status_code == 302
    assert answer.headers["Location"] == "/jobs?status=failed&kind=mail.send"


def test_what_a_form_sends_stands_in_the_address_in_one_way(client: FlaskClient) -> None:
    client.set_cookie("zone", "Europe/Berlin")
    answer = client.get(
        "/jobs?since=2026-11-29+12:00&until=-1h&attempts=%E2%89%A5+03&payload=b.c=x=1&payload=a=+2+&payload="
    )

    assert answer.status_code == 302
    assert answer.headers["Location"] == (
        "/jobs?since=2026-11-29T11:00:00.000Z&until=-1h&attempts=%3E%3D3&payload.a=2&payload.b.c=x%3D1"
    )
    page = client.get(answer.headers["Location"])
    assert page.status_code == 200
    assert 'value="b.c=x=1"' in page.text
    assert re.search(r"<details[^>]* open>\s*<summary>More filters", page.text)
    assert not re.search(r"<details[^>]* open>\s*<summary>More", client.get("/jobs?kind=a").text)
    wrong = client.get("/jobs?attempts=x").text
    assert 'aria-invalid="true" aria-describedby="problem-attempts"' in wrong


def test_a_changed_filter_pushes_its_address_and_a_refresh_does_not(client: FlaskClient) -> None:
    asked = "/jobs?kind=mail.send&producer="

    changed = client.get(asked, headers={**PANEL, "HX-Source": "form#filter"})
    polled = client.get(asked, headers={**PANEL, "HX-Source": "section#panel"})

    assert changed.headers["HX-Push-Url"] == "/jobs?kind=mail.send"
    assert "HX-Push-Url" not in polled.headers


def test_while_rows_are_ticked_newer_ones_are_counted_not_shown(
    console: Console, session: Session
) -> None:
    old = [make_job(session).id for _ in range(2)]
    new = [make_job(session).id for _ in range(3)]
    session.commit()

    panel = console.panel(f"/jobs?upto={old[-1]}").text

    assert job_ids(panel) == old[::-1]
    assert "3 newer – show" in words(panel)
    # It goes on asking by itself, and stays where the reader is.
    assert ' data-live hx-get="" hx-trigger="every 5s, refresh"' in panel
    assert new[0] not in job_ids(panel)


def test_a_list_shows_no_payload_result_or_error_text(console: Console, session: Session) -> None:
    make_job(
        session,
        Status.FAILED,
        payload={"secret": "in-payload"},
        result={"secret": "in-result"},
        error_message="in-error-message\nbelow",
    )
    session.commit()

    for path in ("/", "/jobs", "/events"):
        page = console.get(path)
        assert "in-payload" not in page
        assert "in-result" not in page
        assert "below" not in page
        # By cause it is told what one of its jobs said, in a line.
        assert ("in-error-message" in page) == (path == "/")


def test_no_match_says_what_to_widen(console: Console, session: Session) -> None:
    make_job(session)
    session.commit()

    page = console.get("/jobs?status=failed&kind=demo.echo")

    assert "No job matches. The same in every status All jobs" in words(page)
    assert 'href="/jobs?kind=demo.echo"' in page


def test_a_list_that_did_not_look_at_everything_says_so(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SCAN_LIMIT", 2)
    rare = make_job(session, kind="rare.kind").id
    for _ in range(3):
        make_job(session)
    session.commit()

    page = console.get("/jobs?kind=rare.kind")
    assert "None of the" in words(page)
    further = link(page, "next")
    assert further is not None
    assert job_ids(console.get(further)) == [rare]


def test_a_first_look_that_finds_nothing_says_why_and_leads_on(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest jobs all wait, and more of the status asked for have ended than are looked at."""
    for module in (listing, candidates):
        monkeypatch.setattr(module, "SCAN_LIMIT", 2)
    ended = [make_job(session, Status.SUCCEEDED).id for _ in range(4)]
    waiting = [make_job(session).id for _ in range(5)]
    session.commit()

    page = console.get("/jobs?status=succeeded")

    text = words(page)
    assert "The list goes from the newest job down" in text
    assert text.index("Look further") < text.index(f"Go to job {ended[-1]}") < text.index("CSV")
    [further, there] = re.findall(r'<a class="button" href="(/jobs[^"]+)"', page)[:2]
    assert further.endswith(f"before={waiting[-2]}")
    assert there.endswith(f"before={ended[-1] + 1}")
    assert job_ids(console.get(html.unescape(there))) == ended[:1:-1]
    # Where nothing has ended there is nowhere to go.
    assert "Go to job" not in words(console.get("/jobs?status=failed"))


def test_every_row_offers_what_its_status_allows(console: Console, session: Session) -> None:
    by_status = {status: make_job(session, status).id for status in Status}
    session.commit()

    page = console.get("/jobs")
    offered = set(re.findall(r'href="/jobs/(\d+)/(retry|cancel)"', page))

    assert offered == {
        (str(by_status[status]), verb)
        for verb, statuses in {
            "cancel": (Status.QUEUED, Status.RUNNING, Status.HELD),
            "retry": (Status.FAILED, Status.CANCELLED),
        }.items()
        for status in statuses
    }


def test_the_list_of_a_kind_holds_the_kind_and_lifts_its_hold(
    console: Console, session: Session
) -> None:
    make_job(session, kind="demo.echo")
    session.commit()
    hold, unhold = 'href="/kinds/demo.echo/hold"', 'href="/kinds/demo.echo/unhold"'

    assert hold not in console.get("/jobs")
    # What no kind is called, and what nobody has, has no button.
    assert "/hold" not in console.get("/jobs?kind=<b>") + console.get("/jobs?kind=demo.fail")
    page = console.get("/jobs?status=due&kind=demo.echo")
    assert "Hold demo.echo" in words(page)
    assert hold in page
    assert unhold not in page

    control.hold_kind(session, "demo.echo", actor="user:ana", reason="it is down")
    session.commit()
    page = console.get("/jobs?kind=demo.echo")
    assert "Lift the hold on demo.echo" in words(page)
    assert unhold in page
    assert hold not in page


@pytest.mark.postgresql("round trips")
def test_the_list_takes_as_many_statements_for_fifty_rows_as_for_one(
    app: Flask, console: Console, session: Session
) -> None:
    with app.app_context():
        engine = db.engine
    counts = []
    for rows in (1, 49):
        for _ in range(rows):
            make_job(session, Status.QUEUED)
        session.commit()
        with statements_of(engine) as sent:
            assert console.panel("/jobs").status_code == 200
        counts.append(len(sent))

    assert counts[0] == counts[1] <= 8


@pytest.mark.postgresql("rows written past the verbs")
def test_one_odd_row_does_not_take_the_list(console: Console, session: Session) -> None:
    job = make_job(session, Status.SUCCEEDED)
    session.execute(
        sa.text(
            "UPDATE jobs SET payload = '\"text\"', result = 'null', kind = 'zz', timeout_s = 0,"
            " finished_at = created_at - interval '1 year', started_at = NULL,"
            " error_class = E'a\\x01\\nb', handbacks = 2147483647"
        )
    )
    session.execute(
        sa.text("UPDATE job_events SET data = '[1]', attempt = NULL, from_status = 'running'")
    )
    session.commit()

    for path in ("/", "/jobs", "/events", f"/jobs/{job.id}"):
        console.get(path)
