"""When a page asks by itself, and when not: offline, and ever later after each failure."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect
from sqlalchemy.orm import Session

from tests.browser.screen import row_ids
from tests.factories import make_job
from tests.live.processes import until

# When the page asked, by its own clock, which the test moves; no wait is longer by chance.
NOTE = """
Math.random = () => 0.5;
window.asks = [];
const real = window.fetch;
window.fetch = (...about) => { asks.push(Date.now()); return real(...about); };
"""

Asks = Callable[[], list[int]]


@pytest.fixture
def asks(page: Page) -> Asks:
    """When the page has asked so far, in milliseconds."""
    page.add_init_script(NOTE)
    page.clock.install(time="2026-11-30T11:00:00")
    page.clock.pause_at("2026-11-30T12:00:00")
    return lambda: page.evaluate("asks")


def pass_until_asked(page: Page, asks: Asks, within_s: int) -> None:
    """Let the page's seconds pass one by one until it has asked once more."""
    before = len(asks())
    for _ in range(within_s):
        page.clock.run_for(1_000)
        if len(asks()) > before:
            return
    pytest.fail(f"nothing was asked for {within_s} s")


def wait_for_failures(page: Page, number: int) -> None:
    until(lambda: page.evaluate("refresh.failures") == number, f"{number} refreshes have failed")


def test_offline_nothing_is_asked_and_it_is_said_until_the_network_is_back(
    context: BrowserContext,
    page: Page,
    live_server: str,
    session: Session,
    asks: Asks,
    expected_errors: list[str],
) -> None:
    # The browser itself asks for the icon when it likes.
    expected_errors.append("INTERNET_DISCONNECTED .*favicon")
    job = make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")
    note = page.locator("#as-of-note")

    context.set_offline(True)
    expect(note).to_have_text("· offline, goes on with the network")
    expect(page.locator("#panel")).to_have_attribute("data-stale", "")
    before = len(asks())
    page.clock.run_for(120_000)
    assert len(asks()) == before
    expect(page.locator("#alarm")).to_have_text("There is no network. What is shown may be old.")
    assert row_ids(page) == [job.id]

    newer = make_job(session)
    session.commit()
    context.set_offline(False)
    until(lambda: len(asks()) > before, "it asks as soon as there is a network")
    expect(note).to_have_text("")
    page.clock.run_for(100)
    expect(page.locator("#live")).to_contain_text("The connection is back.")
    expect(page.locator("#panel[data-stale]")).to_have_count(0)
    assert row_ids(page) == [newer.id, job.id]


def test_frozen_pages_say_nothing_of_the_network(
    context: BrowserContext,
    page: Page,
    live_server: str,
    session: Session,
    expected_errors: list[str],
) -> None:
    expected_errors.append("INTERNET_DISCONNECTED .*favicon")
    make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.click("#pause")

    context.set_offline(True)
    until(lambda: not page.evaluate("navigator.onLine"), "the page is offline")

    expect(page.locator("#as-of-note")).to_have_text("")


def test_each_failure_makes_the_next_wait_longer(
    page: Page, live_server: str, session: Session, asks: Asks, expected_errors: list[str]
) -> None:
    expected_errors += ["503", "Failed to load", "htmx:error"]
    job = make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")

    def fail(route: Route) -> None:
        route.fulfill(status=503, body="<p>no</p>")

    page.route("**/jobs", fail)
    pass_until_asked(page, asks, 6)
    for failures, wait_s in enumerate((5, 10, 20, 60, 60), start=1):
        wait_for_failures(page, failures)
        expect(page.locator("#as-of-note")).to_have_text(f"· no answer, retrying in {wait_s} s")
        before = len(asks())
        page.clock.run_for((wait_s - 1) * 1_000)
        assert len(asks()) == before, wait_s
        # The timer looks every five seconds whether it is time.
        pass_until_asked(page, asks, 7)

    wait_for_failures(page, 6)
    page.unroute("**/jobs", fail)
    pass_until_asked(page, asks, 66)
    expect(page.locator("#as-of-note")).to_have_text("")
    page.clock.run_for(100)
    expect(page.locator("#live")).to_contain_text("The connection is back.")
    assert row_ids(page) == [job.id]
