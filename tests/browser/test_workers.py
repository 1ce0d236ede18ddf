"""A dead worker's jobs are taken back from the page of workers."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs import queries
from tests.console.test_workers import DEAD, held_by, sign


def test_a_dead_workers_jobs_are_released_with_three_clicks(
    page: Page, live_server: str, session: Session
) -> None:
    sign(session, DEAD, ago_s=300)
    [job_id] = held_by(session, DEAD)
    page.goto(live_server)

    page.click("nav >> text=Workers")
    page.click("[data-verb=release]")
    page.wait_for_selector("#dialog[open]")
    assert page.evaluate("document.activeElement.id") == "dialog-title"
    assert "may run twice" in page.inner_text("#dialog")
    page.click("#dialog button[data-verb=release]")

    page.wait_for_selector("text=Released 1 job.")
    assert not page.locator("#dialog").is_visible()
    # The row stays, without a job; whoever reads the page by ear is told.
    page.wait_for_selector("#panel [data-verb=release]", state="detached")
    expect(page.locator("#live")).to_contain_text("Released 1 job. Look at what was released")
    session.rollback()
    job = queries.get_job(session, job_id)
    assert (job.status, job.locked_by) == ("queued", None)
    line = queries.events_of(session, job_id)[-1]
    assert line.actor == "user:local"
    assert str(line.reason).startswith("the worker has been silent for 5 min")


def test_pages_are_reached_by_keys(page: Page, live_server: str) -> None:
    page.goto(live_server)

    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/system")
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.wait_for_url("**/workers")
