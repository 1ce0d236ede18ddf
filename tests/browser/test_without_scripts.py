"""Without scripts every page is there and every verb does what it says: forms and links alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa
from flask import Flask
from playwright.sync_api import Browser, Page, expect
from sqlalchemy.orm import Session

from queueapp.console import operations as views
from queueapp.jobs import control
from queueapp.jobs.connection_names import connection_name
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.operations import driver
from queueapp.jobs.status import Status
from tests.console.test_outage import every_page
from tests.console.test_workers import ALIVE, DEAD, held_by, sign
from tests.factories import make_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REASON = "smtp is back"


class Reader:
    """Somebody whose browser runs no scripts."""

    def __init__(self, page: Page, root: str, session: Session) -> None:
        self.page, self.root, self.session = page, root, session

    def open(self, path: str) -> None:
        answer = self.page.goto(self.root + path)
        assert answer is not None
        assert answer.status == 200, path

    def press(self, verb: str, within: str = "#main", **fields: str) -> None:
        """Press the button of a verb, and on the page that asks the one that does it."""
        self.page.click(f"{within} [data-verb={verb}] >> nth=0")
        expect(self.page.locator("#dialog-title")).to_be_visible()
        for name, value in fields.items():
            field = self.page.locator(f"#confirm [name={name}]")
            if field.evaluate("one => one.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        self.page.click(f"#confirm button[data-verb={verb}]")
        expect(self.page.locator("#dialog-title")).to_have_count(0)

    def plan(self, path: str, verb: str, **fields: str) -> None:
        """From a list to the question about all that match, and its answer."""
        self.open(path)
        self.page.click(".ticked__match")
        for name, value in {"reason": REASON, **fields}.items():
            self.page.fill(f"#plan-form [name={name}]", value)
        self.page.click(f"#plan-form [data-verb={verb}]")
        self.page.click("#begin button")

    def go_on(self, headline: str) -> None:
        """Press Continue until it is over."""
        button = self.page.get_by_role("button", name="Continue")
        while button.count():
            button.click()
        expect(self.page.locator("#operation-title")).to_have_text(headline)

    def statuses(self, *ids: int) -> set[str]:
        self.session.rollback()
        return set(self.session.scalars(sa.select(Job.status).where(Job.id.in_(ids))))

    def job(self, job_id: int) -> Job:
        self.session.rollback()
        return self.session.get_one(Job, job_id)

    def told(self, event: str) -> list[tuple[str, str | None]]:
        """Who did it and why, of each such line of the ledger."""
        self.session.rollback()
        lines = sa.select(JobEvent.actor, JobEvent.reason).where(JobEvent.event == event)
        return [(actor, reason) for actor, reason in self.session.execute(lines)]


@pytest.fixture
def reader(browser: Browser, live_server: str, session: Session) -> Iterator[Reader]:
    context = browser.new_context(java_script_enabled=False)
    yield Reader(context.new_page(), live_server, session)
    context.close()


def failed(session: Session, count: int, **fields: str) -> list[int]:
    ids = [make_job(session, Status.FAILED, **fields).id for _ in range(count)]
    session.commit()
    return ids


def test_every_page_is_there(reader: Reader, app: Flask, session: Session) -> None:
    for path in every_page(app, session):
        if path.startswith("/login") or ".csv" in path or ".ndjson" in path:
            continue
        reader.open(path)
        expect(reader.page.locator("#main")).to_contain_text("")
        assert len(reader.page.inner_text("#main")) > 20, path
        for button in ("#pause", "#theme", "#help-button"):
            assert not reader.page.locator(f"{button}:visible").count(), path
    # What the dialog of keys tells stands on a page as well.
    reader.open("/help")
    expect(reader.page.locator("#main")).to_contain_text("next row, row before")


def test_one_job_is_retried_and_cancelled(reader: Reader, session: Session) -> None:
    [job_id] = failed(session, 1)
    reader.open(f"/jobs/{job_id}")

    reader.press("retry", reason=REASON)
    expect(reader.page.locator("#notice")).to_contain_text("Retrying 1 job")
    assert reader.statuses(job_id) == {"queued"}
    reader.press("cancel", reason="no, it is not")

    assert reader.statuses(job_id) == {"cancelled"}
    assert reader.told("requeued") == [("user:local", REASON)]
    assert reader.told("cancelled") == [("user:local", "no, it is not")]


def test_one_job_is_held_moved_made_due_and_cloned(reader: Reader, session: Session) -> None:
    job_id = make_job(session).id
    session.commit()
    reader.open(f"/jobs/{job_id}")

    reader.press("hold", reason="hold it")
    assert reader.statuses(job_id) == {"held"}
    reader.press("unhold", reason="let it go")
    assert reader.statuses(job_id) == {"queued"}
    reader.press("reschedule", minutes="60", to_priority="7", reason="tonight")
    moved = reader.job(job_id)
    later = moved.created_at + timedelta(minutes=50)
    assert (moved.priority, moved.available_at > later) == (7, True)
    reader.press("run-now", reason="now after all")
    assert reader.job(job_id).available_at < later
    reader.press("clone", reason="once more")
    [cloned] = set(session.scalars(sa.select(Job.id))) - {job_id}
    expect(reader.page).to_have_url(re.compile(rf"/jobs/{cloned}\b"))

    for event, reasons in {
        "held": ["hold it"], "unheld": ["let it go"], "rescheduled": ["tonight", "now after all"],
        "cloned": ["once more"],
    }.items():  # fmt: skip
        assert reader.told(event) == [("user:local", reason) for reason in reasons]


def test_one_job_is_purged(reader: Reader, session: Session) -> None:
    [job_id] = failed(session, 1)
    reader.open(f"/jobs/{job_id}")

    reader.press("purge", reason="a customer has asked")

    assert reader.statuses(job_id) == set()
    assert reader.told("purged") == [("user:local", "a customer has asked")]


@pytest.mark.postgresql("connections")
def test_a_worker_is_asked_to_drain(reader: Reader, session: Session, database_url: str) -> None:
    sign(session, ALIVE)
    name = connection_name("work", ALIVE.removeprefix("worker:"))
    engine = sa.create_engine(
        database_url, poolclass=sa.NullPool, connect_args={"application_name": name}
    )

    with engine.connect():
        reader.open(f"/workers/{ALIVE}")
        reader.press("drain", reason="a new release")

    expect(reader.page.locator("#notice")).to_contain_text("drain")
    assert reader.told("drain_requested") == [("user:local", "a new release")]


def test_the_queue_is_paused_and_resumed_a_kind_held_and_lifted(reader: Reader) -> None:
    make_job(reader.session)
    reader.session.commit()
    reader.open("/")
    reader.press("pause", within="#switches", reason=REASON, minutes="30")
    expect(reader.page.locator("#switches")).to_contain_text("Paused")
    expect(reader.page.locator("#switches")).to_contain_text("it ends by itself at")
    pause = control.in_force(reader.session).pause
    assert pause is not None
    assert pause.until is not None
    reader.press("resume", within="#switches", reason="done")
    reader.session.rollback()
    assert control.in_force(reader.session).pause is None

    reader.open("/kinds/demo.echo")
    reader.press("hold", reason=REASON)
    reader.session.rollback()
    assert [*control.in_force(reader.session).held_kinds] == ["demo.echo"]
    expect(reader.page.locator("#main")).to_contain_text("On hold")
    reader.press("unhold", spread="10", reason="back")
    reader.session.rollback()
    assert not control.in_force(reader.session).held_kinds
    for event, reason in (
        ("queue_paused", REASON), ("queue_resumed", "done"), ("kind_held", REASON),
        ("kind_unheld", "back"),
    ):  # fmt: skip
        assert reader.told(event) == [("user:local", reason)]


def test_many_jobs_are_moved_stopped_gone_on_with_and_put_back(
    reader: Reader, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 3)
    monkeypatch.setattr(views, "LONGEST_S", 0)
    ids, page = [make_job(session).id for _ in range(7)], reader.page
    session.commit()

    reader.plan("/jobs?status=queued", "cancel")
    expect(page.locator("#operation-title")).to_have_text("Cancelling 7 jobs: 3 done")
    assert reader.statuses(*ids) == {"queued", "cancelled"}
    page.click("#stop-button")
    expect(page.locator("#operation-title")).to_contain_text("Stopped: 3 of 7")
    page.fill("#undo [name=reason]", "too early")
    page.click("#undo button")
    page.click("#begin button")
    reader.go_on("Done: 3 jobs put back")
    assert reader.statuses(*ids) == {"queued"}

    reader.plan("/jobs?status=queued", "cancel")
    reader.go_on("Done: 7 jobs cancelled")
    assert reader.statuses(*ids) == {"cancelled"}
    reader.plan("/jobs?status=cancelled", "retry")
    reader.go_on("Done: 7 jobs retried")
    assert reader.statuses(*ids) == {"queued"}
    reader.plan("/jobs?status=queued", "reschedule", minutes="60", to_priority="5")
    reader.go_on("Done: 7 jobs rescheduled")
    session.rollback()
    assert set(session.scalars(sa.select(Job.priority))) == {5}
    reader.plan("/jobs?status=scheduled", "run-now")
    reader.go_on("Done: 7 jobs made due")
    reader.plan("/jobs?status=queued", "hold")
    reader.go_on("Done: 7 jobs held")
    assert reader.statuses(*ids) == {"held"}
    reader.plan("/jobs?status=held", "unhold")
    reader.go_on("Done: 7 jobs unheld")
    assert reader.statuses(*ids) == {"queued"}
    reader.open("/operations")
    assert page.locator(".op-row").count() == 8
    expect(page.locator(".op-row").first).to_contain_text("done")


def test_a_cause_is_tried_first_and_its_kind_held(reader: Reader, session: Session) -> None:
    failed(session, 8)
    page = reader.page
    reader.open("/errors")
    page.click(".cause a.cause__name")
    page.fill("#group-verbs [name=reason]", REASON)
    page.click("#group-verbs [data-verb=canary]")
    page.click("#begin button")
    expect(page.locator("#operation-title")).to_have_text("Trying 5 jobs first, of 8 jobs")
    page.click("#stop-button")
    expect(page.locator("#operation-title")).to_contain_text("Stopped")

    reader.open("/errors")
    page.click(".cause a.cause__name")
    page.fill("#group-verbs [name=reason]", "typed beside the button")
    reader.press("hold", within="#group-verbs")
    assert reader.told("kind_held") == [("user:local", "typed beside the button")]
    reader.press("unhold", within="#group-verbs")
    assert reader.told("kind_unheld")


def test_jobs_of_a_dead_worker_are_released(reader: Reader, session: Session) -> None:
    sign(session, DEAD, ago_s=400)
    ids = held_by(session, DEAD, 2)
    session.execute(sa.text("UPDATE jobs SET claimed_at = claimed_at - interval '300 s'"))
    session.commit()
    reader.open("/workers")

    reader.press("release", reason=REASON)

    assert reader.statuses(*ids) == {"queued"}


def test_the_box_and_the_settings_are_forms(reader: Reader, session: Session) -> None:
    [job_id] = failed(session, 1)
    page = reader.page
    reader.open("/settings")
    page.fill("[name=zone]", "Asia/Tokyo")
    page.check('[name=refresh][value="30"]')
    page.get_by_role("button", name="Save").click()
    reader.open(f"/jobs/{job_id}")
    expect(page.locator("#as-of")).to_contain_text("JST")

    page.fill("#jump", str(job_id))
    page.press("#jump", "Enter")
    assert page.url == f"{reader.root}/jobs/{job_id}"
    reader.open("/jobs?refresh=10")
    assert page.request.get(page.url).headers["refresh"] == "10"
