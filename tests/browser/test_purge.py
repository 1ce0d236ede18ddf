"""Purge with the mouse: from the page of a job, of ticked rows, of all that match."""

from __future__ import annotations

import sqlalchemy as sa
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs import queries
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from tests.browser.screen import row_ids
from tests.factories import make_job


def jobs(session: Session, count: int) -> list[int]:
    ids = [make_job(session, Status.SUCCEEDED).id for _ in range(count)]
    session.commit()
    return ids


def test_a_job_is_purged_from_its_page_which_is_left(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    first, second = jobs(session, 2)
    page.goto(f"{live_server}/jobs/{first}")

    page.click(".job__verbs [data-verb=purge]")
    dialog = page.locator("#dialog")
    expect(dialog.locator("h2")).to_have_text(f"Purge job {first}?")
    with page.expect_download() as copy:
        dialog.get_by_role("link", name="NDJSON").click()
    assert copy.value.suggested_filename == "jobs.ndjson"
    # Without a reason the browser itself keeps the form.
    dialog.locator("button[data-verb=purge]").click()
    expect(dialog).to_be_visible()
    dialog.locator("[name=reason]").fill("old")
    dialog.locator("button[data-verb=purge]").click()

    expect(page.locator("#notice")).to_have_text("Purged 1 job.")
    page.wait_for_url(f"{live_server}/jobs")
    assert row_ids(page) == [second]
    expected_errors.append("404")
    page.goto(f"{live_server}/jobs/{first}")
    expect(page.locator("h1")).to_have_text("The job was purged")
    expect(page.locator("main")).to_contain_text("user:local purged it")
    session.rollback()
    assert queries.events_of(session, first)[-1].reason == "old"


def test_ticked_rows_are_purged_and_the_list_stays(
    page: Page, live_server: str, session: Session
) -> None:
    ids = jobs(session, 3)
    page.goto(f"{live_server}/jobs?status=succeeded")

    for one in ids[:2]:
        page.check(f"#job-{one} input")
    page.click("#ticked button[value=purge]")
    expect(page.locator("#dialog h2")).to_have_text("Purge 2 jobs?")
    page.fill("#dialog [name=reason]", "old")
    page.click("#dialog button[data-verb=purge]")

    expect(page.locator("#notice")).to_have_text("Purged 2 jobs.")
    expect(page.locator(f"#job-{ids[0]}")).to_have_count(0)
    assert row_ids(page) == [ids[2]]
    assert page.url == f"{live_server}/jobs?status=succeeded"


def test_all_that_match_are_purged_once_the_word_is_typed(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors.append("422")
    jobs(session, 3)
    page.goto(f"{live_server}/operations/new?status=succeeded")

    page.fill("[name=reason]", "old")
    page.click("button[value=purge]")
    title = page.locator("#operation-title")
    expect(title).to_have_text("Purge 3 jobs?")
    page.fill("[name=word]", "retry")
    page.click("#begin button[data-verb=purge]")
    expect(page.locator("#wrong-word")).to_contain_text("type purge")
    page.fill("[name=word]", "purge")
    page.click("#begin button[data-verb=purge]")

    expect(title).to_have_text("Done: 3 jobs purged")
    expect(page.locator("#fates")).to_contain_text("gone 3")
    expect(page.locator("#undo")).to_have_count(0)
    session.rollback()
    assert session.scalar(sa.select(sa.func.count()).select_from(Job)) == 0
