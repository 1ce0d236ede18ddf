"""The filter is the address: typed, pushed, gone back to, and working without scripts."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.browser.screen import row_ids
from tests.factories import make_job


def test_a_changed_filter_is_pushed_and_back_restores_the_page_and_its_fields(
    page: Page, live_server: str, session: Session
) -> None:
    mail = make_job(session, kind="mail.send").id
    other = make_job(session).id
    session.commit()
    page.goto(f"{live_server}/jobs")

    page.fill("#filter [name=kind]", "mail.send")
    expect(page).to_have_url(f"{live_server}/jobs?kind=mail.send")
    expect(page.locator(f"#job-{other}")).to_have_count(0)
    assert row_ids(page) == [mail]

    page.go_back()
    expect(page.locator(f"#job-{other}")).to_be_visible()
    expect(page.locator("#filter [name=kind]")).to_have_value("")
    page.go_forward()
    expect(page.locator(f"#job-{other}")).to_have_count(0)
    expect(page.locator("#filter [name=kind]")).to_have_value("mail.send")


def test_a_filter_keeps_the_status_that_was_chosen(
    page: Page, live_server: str, session: Session
) -> None:
    failed = make_job(session, Status.FAILED, kind="mail.send").id
    make_job(session, kind="mail.send")
    session.commit()
    page.goto(f"{live_server}/jobs")

    page.click(".tabs a:has-text('failed')")
    page.fill("#filter [name=kind]", "mail.send")
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{live_server}/jobs?status=failed&kind=mail.send")
    assert row_ids(page) == [failed]
    expect(page.locator(".tabs [aria-current]")).to_have_text(re.compile("failed"))


def test_a_filter_typed_on_an_older_page_leads_to_a_list_that_refreshes(
    page: Page, live_server: str, session: Session
) -> None:
    for _ in range(52):
        make_job(session, kind="mail.send")
    session.commit()
    page.goto(f"{live_server}/jobs?before=3")
    expect(page.locator("#panel")).to_have_attribute("hx-trigger", "refresh")

    page.fill("#filter [name=kind]", "mail.send")

    expect(page.locator("#panel")).to_have_attribute("hx-trigger", re.compile("every 5s"))
    with page.expect_response(re.compile(r"\?kind=mail.send$"), timeout=8_000):
        pass


def test_a_refresh_after_the_filter_asks_for_the_filtered_list(
    page: Page, live_server: str, session: Session
) -> None:
    make_job(session, kind="mail.send")
    session.commit()
    page.goto(f"{live_server}/events")
    page.select_option("#filter [name=event]", "claimed")
    expect(page).to_have_url(f"{live_server}/events?event=claimed")

    with page.expect_request(re.compile(r"/events\?event=claimed$")):
        page.wait_for_timeout(2_500)


def test_without_scripts_the_filter_pages_and_verbs_work(
    browser: Browser, live_server: str, session: Session
) -> None:
    for _ in range(51):
        make_job(session, Status.FAILED, kind="mail.send")
    make_job(session)
    session.commit()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{live_server}/jobs")
    for button in ("#pause", "#theme", "#help-button"):
        expect(page.locator(button)).to_be_hidden()

    page.fill("#filter [name=kind]", "mail.send")
    page.click("#filter button")
    assert page.url == f"{live_server}/jobs?kind=mail.send"
    page.click(".pager [rel=next]")
    assert row_ids(page) == [1]
    page.click(".pager [rel=prev]")

    page.check("#job-51 input")
    page.check("#job-50 input")
    page.click("#ticked button[value=retry]")
    expect(page.locator("#dialog-title")).to_have_text("Retry 2 jobs?")
    page.fill("[name=reason]", "smtp is back")
    page.click("#confirm button")

    expect(page.locator("#notice")).to_have_text(re.compile("Retrying 2 jobs."))
    assert page.url.startswith(f"{live_server}/jobs?kind=mail.send")
    expect(page.locator("#job-51 .status")).to_have_text("queued")

    page.click("#job-50 [data-verb=cancel]")
    page.click("#confirm button")
    expect(page.locator("#job-50 .status")).to_have_text("cancelled")
    for path in ("/", "/events", "/jobs/1"):
        page.goto(live_server + path)
        expect(page.locator("#panel")).to_be_visible()
    context.close()
