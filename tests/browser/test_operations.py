"""From a cause of failures to the end of an operation, with scripts: driven, watched, stopped."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.console import operations as views
from queueapp.jobs import operations, transitions
from queueapp.jobs.models import Job
from queueapp.jobs.operations import driver
from queueapp.jobs.status import Status
from tests.browser.screen import refresh
from tests.factories import HOLDER, claim_one, make_job, outcome


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs in a batch, one batch in a request."""
    monkeypatch.setattr(driver, "BATCH", 2)
    monkeypatch.setattr(views, "LONGEST_S", 0)


def failed_jobs(session: Session, count: int) -> list[int]:
    ids = [make_job(session, Status.FAILED).id for _ in range(count)]
    session.commit()
    return ids


def plan(page: Page, live_server: str, verb: str) -> None:
    """Two clicks from the list of causes to the question."""
    page.goto(f"{live_server}/errors")
    page.click(".cause a.cause__name")
    page.fill("[name=reason]", "it is back")
    page.click(f"#group-verbs [data-verb={verb}]")


def test_one_click_goes_through_all_batches_and_says_so(
    page: Page, live_server: str, session: Session
) -> None:
    failed_jobs(session, 7)
    plan(page, live_server, "retry")
    title = page.locator("#operation-title")
    expect(title).to_have_text("Retry 7 jobs?")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if _applies(request) else None)

    page.click("#begin button")

    expect(title).to_have_text("Done: 7 jobs retried")
    expect(page.locator("#live")).to_contain_text("Done: 7 jobs retried")
    assert len(sent) == 4
    assert not page.locator("#go-on, #stop").count()
    statuses = session.scalars(sa.select(Job.status))
    assert set(statuses) == {"queued"}


def test_stop_keeps_its_focus_and_ends_the_chain(
    page: Page, live_server: str, session: Session
) -> None:
    """A keyboard finds it where it was, however often the panel is renewed meanwhile."""
    failed_jobs(session, 60)
    plan(page, live_server, "retry")
    page.click("#begin button")
    expect(page.locator("#operation-title")).to_be_focused()
    stop = page.locator("#stop-button")
    stop.focus()
    done = page.locator("#operation-title")
    before = done.inner_text()
    expect(done).not_to_have_text(before)
    expect(stop).to_be_focused()

    page.keyboard.press("Enter")

    expect(done).to_contain_text("Stopped: ")
    # The batch that was at work is completed, and the page comes to tell of it.
    left = sa.select(sa.func.count()).where(Job.status == "failed")
    expect(page.locator("#panel")).not_to_have_attribute(
        "hx-trigger", "every 2s, refresh", timeout=20_000
    )
    number = session.scalar(left)
    assert number not in (0, 60)
    expect(done).to_have_text(f"Stopped: {60 - (number or 0)} of 60 jobs retried")


def test_a_canary_is_watched_until_a_worker_has_decided(
    page: Page, live_server: str, session: Session
) -> None:
    ids = failed_jobs(session, 8)
    plan(page, live_server, "canary")
    page.click("#begin button")
    title = page.locator("#operation-title")
    expect(title).to_have_text("Trying 5 jobs first, of 8 jobs")

    for job_id in ids[:4]:
        ends = [outcome(claim_one(session, job_id))]
        transitions.settle(session, ends, actor=HOLDER.name)
    session.commit()
    expect(page.locator("#panel")).to_contain_text("4 of 5 have succeeded", timeout=8_000)
    operation_id = page.url.rpartition("/")[2]
    while not operations.advance(session, operation_id, actor="housekeeping:w1").is_over:
        session.commit()
    session.commit()

    expect(title).to_have_text("Done: 8 jobs retried", timeout=8_000)


def test_no_poll_brings_back_what_was_shown_before_ones_own_act(
    page: Page, live_server: str, session: Session
) -> None:
    """It may take what another tab had read just before that."""
    failed_jobs(session, 8)
    plan(page, live_server, "canary")
    title = page.locator("#operation-title")
    expect(title).to_contain_text("8 jobs?")
    asked = refresh(page).request.all_headers()
    asked.pop("hx-ptag")
    old = page.request.get(page.url, headers=asked)
    assert "hx-ptag" in old.headers

    page.click("#begin button")
    expect(title).to_have_text("Trying 5 jobs first, of 8 jobs")
    page.route(page.url, lambda route: route.fulfill(response=old))
    refresh(page)

    expect(title).to_have_text("Trying 5 jobs first, of 8 jobs")


def _applies(request: object) -> bool:
    return str(getattr(request, "url", "")).endswith("/apply")
