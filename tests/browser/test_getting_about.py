"""From page to page on a telephone: the jump box, the keys, the menu, one's own settings."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.status import Status
from tests.browser.screen import width_of_content
from tests.factories import make_job


def hidden_part_of_row(page: Page) -> int:
    """How much of the row of pages one would have to scroll to."""
    row = page.locator(".top__nav")
    found: int = row.evaluate("row => row.scrollWidth - row.clientWidth")
    return found


def test_box_keys_menu_and_settings_lead_about(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    transitions.requeue(session, [job.id], actor="user:ana", reason="again", via="console")
    session.commit()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{live_server}/jobs")

    page.keyboard.press("/")
    page.keyboard.type(str(job.id))
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{live_server}/jobs/{job.id}")

    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page).to_have_url(f"{live_server}/audit")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{live_server}/jobs/{job.id}")

    page.click("text=More")
    settings = page.locator("#more").get_by_role("link", name="Settings")
    expect(settings).to_be_in_viewport()
    # What the row has no room for is here, and the row has room for the others.
    expect(page.locator("#more").get_by_role("link", name="System")).to_be_in_viewport()
    assert hidden_part_of_row(page) == 0
    page.keyboard.press("Escape")
    expect(settings).to_be_hidden()
    page.click("text=More")
    settings.click()
    assert hidden_part_of_row(page) == 0
    assert page.evaluate("document.querySelector('.top').offsetHeight") < 130
    page.click("#own-zone")
    expect(page.locator("#zone")).to_have_value("UTC")
    page.fill("#zone", "Asia/Tokyo")
    page.check("[name=density][value=compact]")
    page.check("[name=refresh][value=off]")
    page.click("text=Save")
    expect(page.get_by_text("Saved.")).to_be_visible()

    page.goto(f"{live_server}/jobs")
    expect(page.locator("#as-of")).to_contain_text("JST")
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "true")
    assert width_of_content(page) <= 390
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.locator("#panel td.job-row__kind")).to_have_css("padding-top", "3px")
