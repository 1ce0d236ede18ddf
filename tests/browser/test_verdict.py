"""The verdict follows the queue on every page, also on one where nothing is new."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp import judgement
from queueapp.jobs.status import Status
from tests.browser.screen import refresh
from tests.scenes import Scene


def icon(page: Page) -> str | None:
    """The picture in the tab."""
    return page.get_attribute("#icon", "href")


def test_a_stall_shows_in_badge_title_and_icon_of_a_page_that_has_not_changed(
    page: Page, live_server: str, app: Flask, session: Session, expected_errors: list[str]
) -> None:
    scene = Scene(session)
    scene.worker()
    # Nothing about a failed job changes with what is due.
    scene.ended(400, Status.FAILED)
    shared = judgement.shared(app)
    shared.life_s = 0.001
    try:
        page.goto(f"{live_server}/jobs?status=failed")
        expect(page.locator("#badge")).to_have_text("The queue: Healthy")
        assert page.title() == "Jobs failed · development · queue"

        job = scene.due(300)
        refresh(page)

        expect(page.locator("#badge")).to_have_text("The queue: Stalled")
        assert page.title() == "● STALLED · Jobs failed · development · queue"
        assert icon(page) == page.get_attribute("#icon", "data-red")
        expect(page.locator("#live")).to_contain_text("The queue: Stalled.")

        # From the badge to what is wrong, and on to where it helps: no more than two clicks.
        page.click("#badge")
        expect(page.locator("#verdict")).to_contain_text(f"Job {job.id} (demo.echo) is due for")
        page.click("#verdict .verdict__text a")
        expect(page.locator("h1, h2").first).to_be_attached()

        scene.ended(1)
        refresh(page)
        expect(page.locator("#badge")).to_have_text("The queue: Healthy")
        assert not page.title().startswith("●")

        # Where nobody answers any more, nothing is called well for long.
        expected_errors += ["Failed to fetch", "ERR_FAILED", "htmx:error"]
        page.route("**/*", lambda route: route.abort())
        page.evaluate("refreshNow()")
        expect(page.locator("#as-of-note")).to_contain_text("retrying in")
        page.evaluate("refreshNow()")
        expect(page.locator("#badge")).to_have_text("The queue: Unknown")
        assert page.title().startswith("● UNKNOWN · ")
        page.unroute("**/*")
        refresh(page)
        expect(page.locator("#badge")).to_have_text("The queue: Healthy")
    finally:
        shared.life_s = 0.0


@pytest.mark.slow
def test_a_badge_that_nothing_refreshes_says_as_of_when_it_is(
    page: Page, live_server: str, app: Flask, session: Session
) -> None:
    Scene(session).ended(400)
    shared = judgement.shared(app)
    shared.life_s = 0.001
    badge = page.locator("#badge")
    try:
        page.clock.install()
        # Frozen by the reader, and a page that never asks again.
        for path in ("/", "/help"):
            page.goto(f"{live_server}{path}")
            expect(badge).to_have_text("The queue: Healthy")
            if path == "/":
                page.click("#pause")
            page.clock.fast_forward(30_000)
            expect(badge).to_have_text(re.compile(r"^The queue: Healthy at \d\d:\d\d$"))
            expect(badge).to_have_attribute("data-level", "unknown")
            assert page.title().startswith("● HEALTHY AT ")
            assert icon(page) == page.get_attribute("#icon", "data-unknown")

        page.goto(live_server)
        page.clock.fast_forward(30_000)
        expect(page.locator("#panel")).to_have_attribute("data-stale", "")
        page.click("#pause")
        expect(badge).to_have_text("The queue: Healthy")
        expect(page.locator("#panel")).not_to_have_attribute("data-stale", "")
    finally:
        shared.life_s = 0.0
