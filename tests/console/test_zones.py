"""Zones of databases and processes change no instant; readers see all of them in theirs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from flask.testing import FlaskClient
from psycopg import sql
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from queueapp.jobs import control, operations
from queueapp.jobs.models import JobEvent
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.applications import application
from tests.console.conftest import words
from tests.console.test_outage import every_page
from tests.scenes import Scene

pytestmark = pytest.mark.postgresql("zones of databases")

# The two half hours that New York's clocks show twice.
FIRST = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
SECOND = FIRST + timedelta(hours=1)


@pytest.fixture(params=["Asia/Tokyo", "America/New_York"])
def elsewhere(
    request: pytest.FixtureRequest,
    engine: Engine,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Flask]:
    """An application whose database, process and driver live in another zone."""
    zone = request.param

    def set_zone(clause: str) -> None:
        with engine.begin() as connection:
            name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
            text = sql.SQL("ALTER DATABASE {} " + clause).format(sql.Identifier(name))
            connection.exec_driver_sql(text.as_string())

    set_zone(f"SET timezone = '{zone}'")
    monkeypatch.setenv("PGTZ", zone)
    monkeypatch.setenv("PGDATESTYLE", "SQL, DMY")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    with application(database_url) as app:
        yield app
    set_zone("RESET timezone")
    monkeypatch.undo()
    time.tzset()


def in_zone(app: Flask, zone: str) -> FlaskClient:
    client = app.test_client()
    client.set_cookie("zone", zone)
    return client


def test_instants_are_the_same_in_pages_api_files_and_filters(
    elsewhere: Flask, session: Session
) -> None:
    for number, at in enumerate((FIRST, SECOND)):
        event = JobEvent(scope="queue", event="queue_paused", actor=f"user:{number}", reason="r")
        event.created_at = at
        session.add(event)
    session.commit()
    client = in_zone(elsewhere, "America/New_York")

    for path in ("/events", "/audit"):
        page = client.get(path).text
        assert "2026-11-01 01:30:00 EDT" in page, path
        assert "2026-11-01 01:30:00 EST" in page, path
        assert "time (America/New_York)" in page, path
    events = client.get("/api/events").json
    assert events is not None
    assert [one["created_at"] for one in events["items"]] == [
        "2026-11-01T05:30:00.000000Z",
        "2026-11-01T06:30:00.000000Z",
    ]
    for path in ("/events.csv", "/audit.csv", "/events.ndjson", "/audit.ndjson"):
        told = client.get(path).text
        assert "2026-11-01T05:30:00" in told, path
        assert "2026-11-01T06:30:00" in told, path
        assert "01:30:00" not in told.replace("01T", ""), path

    def actors(**asked: str) -> list[str]:
        found = client.get("/audit", query_string=asked, follow_redirects=True)
        return [actor for actor in ("user:0", "user:1") if f">{actor}<" in found.text]

    # By the reader's clock; of a time that was shown twice nobody knows which is meant.
    assert actors(since="2026-11-01 00:30") == ["user:0", "user:1"]
    assert actors(since="2026-11-01 02:30") == []
    assert "came twice" in client.get("/audit?since=2026-11-01+01:30").text
    assert actors(since="2026-11-01T06:00:00Z") == ["user:1"]
    assert actors(since="2026-11-01T15:00:00+09:00") == ["user:1"]


@pytest.mark.parametrize("elsewhere", ["Asia/Tokyo"], indirect=True)
def test_no_page_shows_a_time_of_another_zone(
    elsewhere: Flask, session: Session, engine: Engine
) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM jobs")
    scene = Scene(session)
    scene.minutes(3, succeeded=5, failed=1)
    control.hold_kind(session, "demo.echo", actor="user:ana", reason="r", for_s=3600)
    control.pause(session, actor="user:ana", reason="r", for_s=3600)
    session.commit()
    pages = every_page(elsewhere, session)
    found = operations.survey(session, "reschedule", JobFilter(status=(Status.QUEUED,)))
    due = SECOND + timedelta(days=365)
    moved = operations.plan(
        session, found, how={"available_at": due, "delay_s": None, "priority": None},
        actor="user:ana", reason="r",
    )  # fmt: skip
    session.commit()
    client = in_zone(elsewhere, "Australia/Perth")
    perth = datetime.now(ZoneInfo("Australia/Perth"))

    for path in (*pages, f"/operations/{moved.id}"):
        answer = client.get(path)
        if answer.mimetype != "text/html" or path in ("/help", "/settings"):
            continue
        assert "UTC" not in words(answer.text), path
        if shown := answer.headers.get("Queue-Clock"):
            assert shown[:2] in {f"{perth:%H}", f"{perth + timedelta(minutes=2):%H}"}, path
    assert (
        f"due {due.astimezone(perth.tzinfo):%Y-%m-%d %H:%M:%S} AWST"
        in client.get(f"/operations/{moved.id}").text
    )


def test_a_job_keeps_its_instant_wherever_it_is_told(elsewhere: Flask, session: Session) -> None:
    """The ledger's own texts of instants are in one zone, whoever wrote them."""
    client = elsewhere.test_client()
    given = {"kind": "demo.echo", "payload": {}, "available_at": "2027-03-14T02:30:00-05:00"}
    made = client.post("/api/jobs", json=given).json
    assert made is not None

    assert made["available_at"] == "2027-03-14T07:30:00.000000Z"
    [event] = client.get(f"/api/jobs/{made['id']}/events").json["items"]  # type: ignore[index]
    assert event["data"]["available_at"] == "2027-03-14T07:30:00+00:00"
    page = in_zone(elsewhere, "America/New_York").get(f"/jobs/{made['id']}")
    # In the night when the clocks go on, half past two is not shown.
    assert "2027-03-14 03:30:00 EDT" in page.text
    assert words(page.text).count("UTC") == 0
