"""The drills of a stopped queue, from the first page on, with their clicks counted."""

from __future__ import annotations

import sqlalchemy as sa
from playwright.sync_api import Page
from sqlalchemy.orm import Session

from queueapp.jobs import control
from queueapp.jobs.models import Job
from queueapp.jobs.status import Event
from tests.console.test_causes import fail
from tests.scenes import ECHO, Scene, ago


class Clicks:
    """A reader who counts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.made = 0

    def __call__(self, selector: str) -> None:
        self.page.click(selector)
        self.made += 1


def test_pauses_and_holds_are_found_and_lifted_with_few_clicks(
    page: Page, live_server: str, session: Session
) -> None:
    scene = Scene(session)
    scene.worker()
    scene.event(Event.QUEUE_PAUSED, "queue", 50_400, reason="migration")
    scene.due(3_000)

    # Paused and forgotten: Resume, confirm.
    click = Clicks(page)
    page.goto(live_server)
    assert "paused by user:ana 14 h 0 min ago (migration)" in page.inner_text("#verdict")
    click("#verdict a:has-text('Resume')")
    page.wait_for_selector("#dialog[open]")
    assert page.evaluate("document.activeElement.id") == "dialog-title"
    click("#dialog button[data-verb=resume]")
    page.wait_for_selector("text=The queue goes on.")
    assert click.made == 2
    page.wait_for_selector("#switches:has-text('Nothing is paused or on hold.')")
    assert not page.locator("#dialog").is_visible()

    # A retry storm: the group, Hold, confirm.
    [fingerprint] = {fail(session, f"no account {number}", verb="retry") for number in range(3)}
    session.execute(sa.update(Job).where(Job.attempts > 0).values(available_at=ago(-3_600)))
    session.commit()
    click = Clicks(page)
    page.goto(live_server)
    click(f"a[href='/errors/{fingerprint}']")
    click("[data-verb=hold]")
    page.wait_for_selector("#dialog[open]")
    page.fill("#dialog input[name=reason]", "provider down")
    click("#dialog button[data-verb=hold]")
    page.wait_for_selector("text=The kind is on hold")
    assert click.made == 3
    session.rollback()
    assert control.in_force(session).held_kinds == (ECHO,)

    # The provider is back: the group, Unhold spread, confirm.
    click = Clicks(page)
    page.goto(live_server)
    click(f"a[href='/errors/{fingerprint}']")
    click("[data-verb=unhold]")
    page.wait_for_selector("#dialog[open]")
    assert page.input_value("#dialog select[name=spread]") == "10"
    click("#dialog button[data-verb=unhold]")
    page.wait_for_selector("text=The hold is lifted")
    assert click.made == 3
    # The page has followed by itself.
    page.wait_for_selector("#group-verbs [data-verb=hold]")
    session.rollback()
    assert control.in_force(session).latest[f"kind:{ECHO}"].spread_s == 600
