"""What was not read, or read too long ago, is never told as if it was; what is new is told."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp import judgement
from queueapp.console import banner, overview
from queueapp.console import operations as views
from queueapp.jobs import queries
from queueapp.jobs.operations import driver
from queueapp.jobs.operations.state import key_of
from queueapp.jobs.status import Status
from queueapp.jobs.verdict import statements
from queueapp.jobs.workers import attendance
from queueapp.shared import Shared, Snapshot
from tests.console.conftest import Console, words
from tests.console.hostile import MARK, TEXT
from tests.console.test_causes import fail
from tests.console.test_operation_page import plan, script
from tests.console.test_workers import DEAD, held_by, sign
from tests.factories import make_job

LOST = "worker:lost:1:aaaaaa"


def slow(session: Session, *_args: Any, **_kwargs: Any) -> None:
    """A read that is stopped."""
    queries.bound_reads(session, seconds=0.01)
    session.execute(sa.text("SELECT pg_sleep(1)"))


def test_what_the_verdict_was_made_from_changes_the_page_as_well(
    fresh_app: Flask, session: Session
) -> None:
    """The verdict and the numbers are read at moments of their own."""
    make_job(session, Status.SUCCEEDED)
    session.commit()
    console, look = Console(fresh_app.test_client()), judgement.shared(fresh_app)
    console.get("/")
    look.life_s = 60.0
    make_job(session, Status.FAILED, error_class="KeyError")
    session.commit()
    between = console.panel("/")
    assert "KeyError" not in between.text

    look.life_s = 0.0
    answer = console.panel("/", between.headers["HX-PTag"])

    assert answer.status_code == 200
    assert "KeyError" in answer.text


def test_old_numbers_beside_a_verdict_of_now_are_said_to_be_old(
    fresh_app: Flask, session: Session
) -> None:
    make_job(session, Status.SUCCEEDED)
    session.commit()
    found = overview.shared(fresh_app).get().value

    class Failing:
        wait_s = 1.0

        def begin(self, **_asked: Any) -> None:
            """It is on its way."""

        def get(self, **_asked: Any) -> Snapshot[Any]:
            return Snapshot(found, 61.0, "the database refused (42501)")

    fresh_app.extensions["queue_overview"] = Failing()
    page = words(fresh_app.test_client().get("/").text)

    assert "Healthy" in page
    assert (
        "The numbers below were last read by this web process 1 min 1 s ago:"
        " the database refused (42501)." in page
    )


def test_no_page_waits_long_for_a_verdict_that_does_not_come(
    fresh_app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def read() -> judgement.Look:
        over.wait(60)
        raise AssertionError("too late")

    monkeypatch.setattr(banner, "BADGE_WAIT_S", 0.1, raising=False)
    fresh_app.extensions["queue_look"] = Shared(read)
    try:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(fresh_app.test_client().get, "/jobs")
            done, _ = wait([asked], timeout=10)
            over.set()
    finally:
        over.set()

    assert done
    assert asked.result().headers["Queue-Verdict"] == "unknown Unknown"
    assert 'data-level="unknown"' in asked.result().text


@pytest.mark.postgresql("statement_timeout")
def test_numbers_that_could_not_be_read_say_why(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(session, Status.SUCCEEDED)
    session.commit()
    monkeypatch.setattr("queueapp.jobs.verdict.reading.READING_S", 0.3)
    monkeypatch.setattr(statements, "MINUTES", "SELECT pg_sleep(2)")

    page = words(console.get("/"))

    assert "came and ended per minute – the query took longer" in page
    assert "no minute is counted yet" not in page


@pytest.mark.postgresql("rows written past the verbs")
@pytest.mark.parametrize(
    ("status", "change"),
    [
        (Status.QUEUED, "available_at = '-infinity'"),
        (Status.QUEUED, "available_at = '0044-03-15 BC'"),
        (Status.RUNNING, "started_at = '-infinity', lease_expires_at = '-infinity'"),
    ],
)
def test_one_odd_instant_does_not_take_the_verdict(
    console: Console, session: Session, status: Status, change: str
) -> None:
    make_job(session, status)
    session.execute(sa.text(f"UPDATE jobs SET {change}"))
    session.commit()

    page = words(console.get("/"))

    assert "No workers" in page
    assert "an error of ours" not in page


def test_a_silent_worker_is_gone_in_time_without_a_line_in_the_ledger(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign(session, DEAD, ago_s=300)
    tag = console.unchanged("/workers").headers["HX-PTag"]

    monkeypatch.setattr(attendance, "FORGOTTEN_S", 60.0)
    answer = console.panel("/workers", tag)

    assert answer.status_code == 200
    assert "1 gone since yesterday" in words(answer.text)


def test_whoever_is_known_by_its_jobs_alone_is_left_with_them(
    console: Console, session: Session
) -> None:
    """Its page would not be there any more."""
    held_by(session, LOST)
    sign(session, DEAD, ago_s=300)
    held_by(session, DEAD)

    def led_to(name: str) -> str:
        here = {"Referer": f"http://localhost/workers/{name}"}
        page = console.get(f"/workers/release?worker={name}", **here)
        return page.partition('name="next" value="')[2].partition('"')[0]

    assert led_to(LOST) == "/workers"
    assert led_to(DEAD) == f"/workers/{DEAD}"


@pytest.mark.postgresql("statement_timeout")
def test_causes_that_could_not_be_read_are_not_said_to_be_none(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint = fail(session)
    fail(session, verb="retry")
    session.commit()

    with monkeypatch.context() as patch:
        patch.setattr(queries, "failure_window", slow)
        page = words(console.get("/errors"))
        assert "The newest failures could not be read." in page
        assert "No job is failed" not in page
        assert "demo.echo – of 1 – – 1" in page

    with monkeypatch.context() as patch:
        patch.setattr(queries, "waiting_line", slow)
        assert "The jobs that wait could not be read." in words(console.get("/errors"))
        page = words(console.get(f"/errors/{fingerprint}"))
        assert "waiting to run again – first seen" in page
        assert "Waiting to run again – the query took" in page

    monkeypatch.setattr(queries, "group_of", slow)
    page = words(console.get(f"/errors/{fingerprint}"))
    assert "KeyError" in page
    assert "failed for good – waiting to run again – first seen – last seen –" in page


@pytest.mark.postgresql("advisory locks")
def test_beside_another_driver_the_page_watches_and_does_not_hammer(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 2)
    monkeypatch.setattr(views, "LONGEST_S", 0)
    address, _ids = plan(session, 5)
    assert "load delay" in script(console, f"{address}/apply").text

    key = key_of(address.rpartition("/")[2])
    session.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
    answer = script(console, f"{address}/apply")
    session.rollback()

    assert answer.status_code == 200
    assert "load delay" not in answer.text
    assert "every 2s" in answer.text
    assert "Continue" in words(answer.text)
    assert "load delay" in script(console, f"{address}/apply").text


def test_an_operation_is_found_again_from_the_first_page(
    console: Console, session: Session
) -> None:
    address, _ids = plan(session, 2)
    planned = console.get("/")
    console.post(f"{address}/apply")
    done = console.get("/")

    assert planned.count(f'href="{address}"') == 1
    # Its plan, its end, and the jobs that it moved.
    assert done.count(f'href="{address}"') == 3


def test_the_name_of_a_release_is_text(console: Console, session: Session) -> None:
    sign(session, "worker:a", ago_s=300, release="v1")
    sign(session, "worker:b", release=TEXT[:20])
    fingerprint = fail(session)
    session.commit()

    for path in ("/errors", f"/errors/{fingerprint}", "/", "/workers"):
        page = console.get(path)
        assert f"<script>{MARK}" not in page
    assert f"new since <script>{MARK}" in words(console.get("/errors"))


def test_a_place_in_a_list_that_is_none_is_said(console: Console, session: Session) -> None:
    """Nor does whoever is led to the first page take it for the one that was asked for."""
    job_id = make_job(session).id
    session.commit()

    for path in ("/jobs?after", "/jobs?before", "/operations?before", "/events?before",
                 "/audit?before", "/jobs?kind=&upto"):  # fmt: skip
        page = console.get(f"{path}=zzz")
        assert "“zzz” is no place in this list: it begins with the first page." in words(page)
        assert "is no place" not in console.get(path.partition("?")[0])
    assert f'id="job-{job_id}"' in console.get("/jobs?before=zzz")
