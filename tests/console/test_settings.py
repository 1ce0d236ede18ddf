"""What readers choose for themselves, the zone of all times first; what the server runs with."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.config import load
from queueapp.console import filters, instants, preferences
from queueapp.console.settings import written
from queueapp.jobs.models import JobEvent
from tests.applications import application
from tests.auth.conftest import bearer
from tests.console.conftest import Console, stands_beside, words
from tests.scenes import Scene

BERLIN = ZoneInfo("Europe/Berlin")
# The night in which its clocks went back, an hour before and an hour after.
BEFORE = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
AFTER = BEFORE + timedelta(hours=1)


def test_times_are_right_across_a_change_of_the_clocks() -> None:
    assert filters.stamp(BEFORE, zone=BERLIN) == "2026-10-25 02:30:00 CEST"
    assert filters.stamp(AFTER, zone=BERLIN) == "2026-10-25 02:30:00 CET"
    assert filters.time_of(BEFORE, AFTER, zone=BERLIN) == "02:30:00 CEST"
    assert filters.time_of(AFTER, AFTER, zone=BERLIN) == "02:30:00"
    # The zone's midnight divides the days, not that of UTC.
    evening = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)
    assert filters.time_of(evening, evening + timedelta(hours=1), zone=BERLIN) == "00:30:00"
    assert filters.time_of(evening, evening - timedelta(hours=1), zone=BERLIN) == "07-02 00:30:00"
    assert filters.zone_of(BEFORE, zone=ZoneInfo("America/Sao_Paulo")) == "UTC-03"
    said = "It is due at 2026-10-25 00:30:00 UTC, and so on."
    assert filters.in_zone(said, zone=BERLIN) == "It is due at 2026-10-25 02:30:00 CEST, and so on."
    assert filters.in_zone("9999-99-99 99:99:99 UTC", zone=BERLIN) == "9999-99-99 99:99:99 UTC"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("-2h", "-2h"),
        ("2026-07-01 02:30", "2026-07-01T00:30:00.000Z"),
        ("2026-12-01", "2026-11-30T23:00:00.000Z"),
        ("2026-10-25 03:00", "2026-10-25T02:00:00.000Z"),
        ("2026-03-29 03:00", "2026-03-29T01:00:00.000Z"),
        ("2026-07-01T02:30:15+05:00", "2026-06-30T21:30:15.000Z"),
        ("2026-07-01T02:30:15.250Z", "2026-07-01T02:30:15.250Z"),
    ],
)
def test_a_time_by_somebodys_clock_is_written_for_everybody(text: str, meant: str) -> None:
    assert instants.canonical(text, BERLIN) == meant


@pytest.mark.parametrize("text", ["", "2h", "-2w", "25:00", "2026-02-30", "9999-12-31", "now"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        instants.canonical(text, BERLIN)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-10-25 02:30", "came twice .* 2026-10-25T00:30:00.000Z or 2026-10-25T01:30:00.000Z"),
        ("2026-03-29 02:30", "never came .* 2026-03-29T00:30:00.000Z or 2026-03-29T01:30:00.000Z"),
    ],
)
def test_a_time_that_the_clock_showed_twice_or_never_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"“{text}” {said}"):
        instants.canonical(text, BERLIN)


def test_a_question_ends_with_its_mark(console: Console, client: FlaskClient) -> None:
    client.set_cookie("zone", "Europe/Berlin")

    for path in ("/jobs", "/events", "/audit"):
        text = words(console.get(f"{path}?since=2026-03-29 02:30"))
        assert "or 2026-03-29T01:30:00.000Z? " in text or text.count("Z? So ") == 1, path
        assert "?." not in text, path


def test_every_page_shows_the_zone_that_was_chosen(
    console: Console, client: FlaskClient, session: Session
) -> None:
    session.add(JobEvent(scope="queue", event="queue_paused", actor="user:ana", created_at=BEFORE))
    session.commit()
    assert "2026-10-25 00:30:00 UTC" in console.get("/events")
    tag = console.panel("/events").headers["HX-PTag"]

    saved = console.post("/settings", zone="Europe/Berlin", density="compact", theme="dark",
                         refresh="off")  # fmt: skip

    assert (saved.status_code, saved.location) == (303, "/settings?saved=1")
    page = console.get("/audit")
    for shown in (page, console.get("/events")):
        assert "2026-10-25 02:30:00 CEST" in shown
        assert "time (Europe/Berlin)" in shown
    root = re.findall(r"<html[^>]*>", page)[0]
    assert 'data-theme="dark" data-density="compact" data-pace="off"' in root
    assert console.panel("/events", tag).status_code == 200, "the same panel, other times"
    answer = console.panel("/events")
    as_of = datetime.fromisoformat(answer.headers["Queue-As-Of"])
    assert answer.headers["Queue-Clock"] == f"{as_of.astimezone(BERLIN):%H:%M:%S}"


def test_times_by_the_clock_stand_beside_how_long_ago_for_who_wants_them(
    console: Console, client: FlaskClient, session: Session
) -> None:
    scene = Scene(session)
    job = scene.due(200)
    at = f"{job.available_at.astimezone(UTC):%H:%M:%S}"
    assert f"({at})" not in console.get("/jobs")
    tag = console.panel("/jobs").headers["HX-PTag"]

    console.post("/settings", times="both")

    row = re.compile(rf"waiting 3 min \d+ s \((\d\d-\d\d )?{at}\)")
    assert row.search(words(console.get("/jobs")))
    assert row.search(words(console.panel("/jobs", tag).text)), "the same panel, other times"
    assert row.search(words(console.get(f"/jobs/{job.id}")))
    # Where it stands in full already, once is enough.
    facts = words(console.get(f"/jobs/{job.id}")).partition(" Facts ")[2]
    assert re.search(rf"due since \S+ {at} UTC \( 3 min \d+ s ago\)", facts), facts
    assert 'name="times" value="both" checked' in console.get("/settings")
    client.set_cookie("times", "<b>")
    assert f"({at})" not in console.get("/jobs")


def test_a_pace_is_kept_without_scripts_as_well(console: Console, client: FlaskClient) -> None:
    assert "http-equiv" not in console.get("/jobs")
    client.set_cookie("refresh", "30")

    assert '<noscript><meta http-equiv="refresh" content="30"></noscript>' in console.get("/jobs")
    assert "http-equiv" not in console.get("/audit")


def test_a_zone_that_is_none_changes_nothing(console: Console, client: FlaskClient) -> None:
    answer = console.post("/settings", zone="Europe/<b>", theme="dark")

    assert answer.status_code == 422
    assert "There is no time zone “Europe/<b>”; nothing is changed." in words(answer.text)
    assert client.get_cookie("theme") is None
    assert stands_beside("zone", answer.text)
    # What was chosen beside it is not lost.
    assert 'name="theme" value="dark" checked' in answer.text
    meant = console.post("/settings", zone="Europe/Berln")
    assert "Did you mean Europe/Berlin?" in words(meant.text)
    assert console.post("/settings", zone="europe/berlin").status_code == 303
    zone = client.get_cookie("zone")
    assert zone is not None
    assert zone.value == "Europe/Berlin"


@pytest.mark.parametrize("zone", ["Europe", "../../etc/passwd", "x" * 5000, "\x00", ""])
def test_cookies_that_say_nothing_usable_are_the_default(zone: str) -> None:
    odd = {"zone": zone, "theme": "<b>", "density": "", "refresh": "0"}

    assert preferences.read(odd) == preferences.Preferences()


@pytest.fixture
def secretive(database_url: str) -> Iterator[Flask]:
    tokens = " ".join(
        f"the-{role}:{role}:{hashlib.sha256(f'{role}-secret'.encode()).hexdigest()}"
        for role in ("viewer", "admin")
    )
    given = {"QUEUE_TOKENS": tokens, "QUEUE_SECRET_KEY": "k" * 40, "QUEUE_LEASE": "90s"}
    with application(database_url, **given) as app:
        yield app


def test_admins_see_what_the_server_runs_with_and_no_secret(
    secretive: Flask, database_url: str
) -> None:
    client = secretive.test_client()

    page = client.get("/settings", headers=bearer("admin")).text

    shown = words(page)
    assert "QUEUE_LEASE 90s How long a claim lasts" in shown
    assert "QUEUE_SECRET_KEY set Signs" in shown
    assert "QUEUE_USERS not set default People" in shown
    for secret in ("kkkk", database_url, bearer("admin")["Authorization"], ":admin:"):
        assert secret not in page
    assert "QUEUE_LEASE" not in client.get("/settings", headers=bearer("viewer")).text


def test_everybody_sees_what_is_hidden_from_whom(database_url: str) -> None:
    tokens = " ".join(
        f"the-{role}:{role}:{hashlib.sha256(f'{role}-secret'.encode()).hexdigest()}"
        for role in ("viewer", "admin")
    )
    rules = "*:password pay.charge:card.number pay.charge:iban *:a.b"
    with application(database_url, QUEUE_TOKENS=tokens, QUEUE_REDACT=rules) as app:
        client = app.test_client()
        shown = {
            role: words(client.get("/settings", headers=bearer(role)).text)
            for role in ("viewer", "admin")
        }

    for text in shown.values():
        assert "every kind password a.b pay.charge iban card.number Names are" in text
    assert "Admins see it; you, as everybody else, see ••• in its place" in shown["viewer"]
    assert "You see it, as admins do; operators and viewers see •••" in shown["admin"]

    with application(database_url, QUEUE_REDACT="none:none") as app:
        page = words(app.test_client().get("/settings").text)
    assert "Nothing: whoever may read sees payloads and results whole." in page
    with application(database_url, QUEUE_REDACT="*:<b>'") as app:
        page = app.test_client().get("/settings").text
    assert "<code>&lt;b&gt;&#39;</code>" in page


def test_values_are_written_as_the_environment_would_say_them() -> None:
    here = load({})

    assert written(here.lease) == "1m"
    assert written(here.poll) == "1.5s"
    assert written(here.accept_unknown_kinds) == "0"
    assert written(here.concurrency) == "10"
    assert written(("a", "b")) == "a, b"
    assert written(here.redact).startswith("*:password, *:passwd, ")
    assert written(here.verdict).startswith("stalled=60s ")
    assert written(0.0) == "0s"
