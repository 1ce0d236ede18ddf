"""What people did, as a page and as files."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import closing

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.console import audit, events
from queueapp.jobs import control, operations, transitions
from queueapp.jobs.models import JobEvent
from queueapp.jobs.queries import JobFilter, trail
from queueapp.jobs.status import Event, Status
from tests.console.conftest import Console, words
from tests.console.hostile import MARK, TEXT, make_hostile_jobs
from tests.console.test_jobs import link
from tests.factories import make_job


def act_ids(page: str) -> list[int]:
    return [int(found) for found in re.findall(r'<tr id="act-(\d+)"', page)]


@pytest.fixture
def operation(session: Session) -> str:
    """Ana has retried three jobs, planned an operation over two, and held a kind."""
    failed = [make_job(session, Status.FAILED).id for _ in range(5)]
    session.commit()
    transitions.requeue(session, failed[:3], actor="user:ana", reason="=back", via="console")
    session.commit()
    found = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
    made = operations.plan(session, found, how={}, actor="user:ana", reason="the rest")
    session.commit()
    control.hold_kind(session, "mail.send", actor="cli:bo", reason="provider is down")
    session.commit()
    return made.id


def test_the_page_says_who_did_what_to_how_many_and_why(console: Console, operation: str) -> None:
    page = console.get("/audit")

    shown = words(page)
    assert "hold kind – mail.send cli:bo provider is down" in shown
    assert "plan 2 planned operation retry user:ana the rest" in shown
    assert "retry 3 1 and 2 more, demo.echo user:ana console =back" in shown
    assert f'href="/operations/{operation}"' in page
    assert "every" not in re.findall(r'<section id="panel"[^>]*>', page)[0]
    assert 'id="pause"' not in page


def test_who_confirms_a_canary_is_on_the_page_in_files_and_at_the_operation(
    console: Console, client: FlaskClient, session: Session
) -> None:
    for _ in range(6):
        make_job(session, Status.FAILED)
    session.commit()
    found = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
    made = operations.plan(
        session, found, how={}, actor="user:ana", reason="it is back", canary=operations.Terms()
    )
    session.commit()

    console.post(f"/operations/{made.id}/apply")

    assert "begin 6 planned operation retry, a few first user:local console" in words(
        console.get("/audit?verb=begin")
    )
    rows = list(csv.DictReader(io.StringIO(client.get("/audit.csv").text)))
    assert [(row["verb"], row["actor"]) for row in rows] == [
        ("begin", "user:local"), ("plan", "user:ana"),
    ]  # fmt: skip
    assert '"verb":"begin"' in client.get("/audit.ndjson").text.replace(": ", ":")
    shown = words(console.get(f"/operations/{made.id}"))
    assert re.search(r"planned by user:ana , .* begun by user:local , ", shown)
    told = client.get(f"/api/operations/{made.id}").json or {}
    assert (told["planned_by"], told["begun_by"], told["stopped_by"]) == (
        "user:ana", "user:local", None,
    )  # fmt: skip
    console.post(f"/operations/{made.id}/stop")
    assert "stopped by user:local , " in words(console.get(f"/operations/{made.id}"))


def test_every_line_of_an_operation_says_on_which_surface_it_was_made(
    console: Console, client: FlaskClient, session: Session
) -> None:
    for _ in range(2):
        make_job(session, Status.FAILED)
    session.commit()
    asked = {"verb": "retry", "filter": {"status": ["failed"]}, "reason": "it is back"}
    stopped, done = (client.post("/api/operations", json=asked).get_json()["id"] for _ in "ab")
    client.post(f"/api/operations/{stopped}/stop", json={})
    client.post(f"/api/operations/{done}/apply")

    rows = list(csv.DictReader(io.StringIO(client.get("/audit.csv").text)))
    assert {row["verb"]: row["via"] for row in rows} == {
        "plan": "api", "begin": "api", "finish": "api", "stop": "api",
    }  # fmt: skip

    made = console.post("/operations", verb="retry", reason="once more").headers["Location"]
    console.post(f"{made}/stop")
    rows = list(csv.DictReader(io.StringIO(client.get("/audit.csv").text)))
    assert [(row["verb"], row["via"]) for row in rows[:2]] == [
        ("stop", "console"), ("plan", "console"),
    ]  # fmt: skip


def test_what_was_done_over_http_has_the_id_of_its_request(
    console: Console, client: FlaskClient, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    other = make_job(session)
    session.commit()
    client.post(f"/api/jobs/{job.id}/retry", headers={"X-Request-Id": "from-the-proxy"})
    client.post("/api/queue/pause", json={"reason": "smtp"}, headers={"X-Request-Id": "paused-1"})
    client.post(f"/api/jobs/{other.id}/clone", headers={"X-Request-Id": "cloned-1"})
    # Whoever asks nobody over HTTP has none, also after those.
    transitions.cancel(session, [other.id], actor="cli:bo")
    session.commit()

    read = list(csv.DictReader(io.StringIO(client.get("/audit.csv").text)))
    found = {row["verb"]: row["request_id"] for row in read}
    assert found == {
        "retry": "from-the-proxy", "pause": "paused-1", "clone": "cloned-1", "cancel": "",
    }  # fmt: skip
    assert "request from-the-pr…" in words(console.get("/audit"))


def test_the_address_narrows_it_and_times_become_those_of_everybody(
    console: Console, client: FlaskClient, operation: str
) -> None:
    assert len(act_ids(console.get("/audit?actor=user:ana"))) == 2
    assert len(act_ids(console.get("/audit?verb=queue"))) == 2
    assert len(act_ids(console.get("/audit?verb=retry&since=-1h"))) == 1
    assert act_ids(console.get("/audit?until=-1h")) == []
    client.set_cookie("zone", "Europe/Berlin")
    moved = client.get("/audit?actor=&since=2026-07-01T02:30")
    assert (moved.status_code, moved.headers["Location"]) == (
        302,
        "/audit?since=2026-07-01T00:30:00.000Z",
    )


WRONG = {
    "verb=foo": "There is no verb “foo”.",
    "since=yesterday": "“yesterday” is no time: write -2h",
    "until=2026-02-30": "“2026-02-30” is no time",
    "since=-1h&until=-2h": "No time lies between: since is 20",
    "since=2026-07-01T00:00:00.000Z&until=2026-07-01T00:00:00.000Z": "No time lies between",
    "kind=x": "There is no filter “kind”.",
    "actor=a&actor=b": "Only one actor can be asked for, not “a” and “b”.",
    "actor=%00": "Nobody is called that.",
}


def test_what_cannot_match_is_said_and_never_exported(
    console: Console, client: FlaskClient, operation: str
) -> None:
    for query, said in WRONG.items():
        page = console.get(f"/audit?{query}")

        assert said in words(page)
        assert act_ids(page) == []
        assert client.get(f"/audit.csv?{query}").status_code == 400


def test_pages_lead_to_the_first_act(
    console: Console, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "ROWS", 1)

    page = console.get("/audit")
    seen = act_ids(page)
    while (older := link(page, "next")) and len(seen) < 10:
        page = console.get(older)
        seen += act_ids(page)

    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) == 3


def test_a_look_that_ends_early_says_so_and_where_it_goes_on(
    console: Console, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "SCAN_LIMIT", 1)
    monkeypatch.setattr(trail, "LOOK_S", -1)

    page = console.get("/audit")

    assert "Moves of jobs were looked for back to 20" in words(page)
    assert "Look further" in words(page)
    assert '<a href="/audit?verb=queue">those alone</a>' in page


def test_nothing_done_teaches_what_will_stand_here(console: Console) -> None:
    assert "Nobody has retried, cancelled, held or paused anything yet." in words(
        console.get("/audit")
    )


def test_the_files_hold_what_the_page_holds(
    client: FlaskClient, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "EXPORTED", 1)
    with closing(client.get("/audit.ndjson?actor=user:ana")) as answer:
        lines = [json.loads(line) for line in answer.text.splitlines()]
    with closing(client.get("/audit.csv?verb=retry")) as answer:
        [cells] = csv.DictReader(io.StringIO(answer.text, newline=""))
        assert answer.headers["Content-Disposition"] == 'attachment; filename="audit.csv"'

    assert [(line["verb"], line["jobs"], line["planned"]) for line in lines] == [
        ("plan", 0, 2),
        ("retry", 3, None),
    ]
    assert lines[0]["scope"] == f"op:{operation}"
    assert cells["actor"] == "user:ana"
    assert cells["reason"] == "'=back", "a spreadsheet must not run it"


def test_the_log_is_exported_as_it_is_narrowed(
    client: FlaskClient, console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EXPORTED", 2)
    for _ in range(2):
        make_job(session, Status.SUCCEEDED, kind="mail.send")
    make_job(session, kind="other.kind")
    session.commit()
    session.execute(sa.update(JobEvent).values(reason="r" * 900))
    session.commit()

    page = console.get("/events?kind=mail.send")
    assert 'href="/events.csv?kind=mail.send"' in page
    with closing(client.get("/events.ndjson?kind=mail.send")) as answer:
        lines = [json.loads(line) for line in answer.text.splitlines()]
    with closing(client.get("/events.csv")) as answer:
        rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))

    assert [line["event"] for line in lines] == ["succeeded", "claimed", "enqueued"] * 2
    assert {line["reason"] for line in lines} == {"r" * 900}
    assert len(rows) == 7
    assert client.get("/events.csv?event=foo").status_code == 400


def test_jobs_are_exported_as_their_page_narrows_them(
    client: FlaskClient, console: Console, session: Session
) -> None:
    ids = [make_job(session, Status.FAILED, kind="mail.send").id for _ in range(2)]
    make_job(session, kind="mail.send")
    session.commit()

    page = console.get("/jobs?status=failed&kind=mail.send")
    assert 'href="/jobs.csv?status=failed&amp;kind=mail.send"' in page
    with closing(client.get("/jobs.ndjson?status=failed&kind=mail.send")) as answer:
        assert [json.loads(line)["id"] for line in answer.text.splitlines()] == ids[::-1]
    assert client.get("/jobs.csv?status=foo").status_code == 400


def test_hostile_words_of_people_are_inert(console: Console, session: Session) -> None:
    make_hostile_jobs(session)
    session.add(
        JobEvent(
            scope=f"kind:{TEXT}",
            event=Event.KIND_HELD,
            actor=f"user:{TEXT}",
            reason=TEXT,
            data={"via": TEXT, "request_id": TEXT, "verb": TEXT},
        )
    )
    session.add(
        JobEvent(
            scope=f"op:{TEXT}",
            event=Event.OP_PLANNED,
            actor=f"user:{TEXT}",
            reason=TEXT,
            data={"verb": TEXT, "counts": {TEXT: TEXT}, "moved": TEXT},
        )
    )
    session.commit()

    page = console.get("/audit")

    assert len(act_ids(page)) == 2
    assert f"<script>{MARK}" not in page
    assert "49{%" not in re.findall(r"<tbody>.*</tbody>", page, re.DOTALL)[0].replace("7*7", "")
