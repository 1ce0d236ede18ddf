"""The console by keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.factories import make_job


def test_rows_are_walked_ticked_opened_and_acted_on(
    page: Page, live_server: str, session: Session
) -> None:
    ids = [make_job(session, Status.FAILED).id for _ in range(3)][::-1]
    session.commit()
    page.goto(f"{live_server}/jobs")

    for key in ("j", "j", "x", "k", "X"):
        page.keyboard.press(key)
    expect(page.locator("#ticked-count")).to_have_text("2 ticked:")
    for key in ("x", "j", "x", "k"):
        page.keyboard.press(key)
    expect(page.locator("#ticked-count")).to_have_text("")
    page.keyboard.press("r")
    expect(page.locator("#dialog h2")).to_have_text(f"Retry job {ids[0]}?")
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Enter")

    # Whole: a link that is followed before the scripts listen leads to a page, not a dialog.
    page.wait_for_url(f"{live_server}/jobs/{ids[1]}", wait_until="load")
    page.keyboard.press("r")
    expect(page.locator("#dialog h2")).to_have_text(f"Retry job {ids[1]}?")


@pytest.mark.parametrize(("key", "verb"), [("r", "Retry"), ("c", "Cancel")])
def test_a_verb_is_for_the_ticked_jobs_wherever_the_focus_is(
    page: Page, live_server: str, session: Session, key: str, verb: str
) -> None:
    status = Status.FAILED if verb == "Retry" else Status.HELD
    for _ in range(4):
        make_job(session, status)
    session.commit()
    page.goto(f"{live_server}/jobs")

    for pressed in ("j", "x", "j", "j", "Shift+X", "j", key):
        page.keyboard.press(pressed)
    expect(page.locator("#dialog h2")).to_have_text(f"{verb} 3 jobs?")
    page.keyboard.press("Escape")
    expect(page.locator("#dialog")).to_be_hidden()

    page.reload()
    page.keyboard.press("a")
    page.keyboard.press(key)
    expect(page.locator("#dialog h2")).to_have_text(f"{verb} 4 jobs?")


def test_a_verb_that_has_no_job_says_so(page: Page, live_server: str, session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    session.commit()
    page.goto(f"{live_server}/jobs")

    page.keyboard.press("r")
    expect(page.locator("#notice")).to_contain_text("Nothing to retry: tick jobs")
    expect(page.locator("#live")).to_contain_text("Nothing to retry: tick jobs")
    page.keyboard.press("j")
    page.keyboard.press("c")
    expect(page.locator("#notice")).to_contain_text("no cancel is offered in its row")
    expect(page.locator("#dialog")).to_be_hidden()


def test_places_are_reached_by_two_keys(page: Page, live_server: str) -> None:
    page.goto(f"{live_server}/")

    for key, path in (("j", "/jobs"), ("l", "/events"), ("n", "/")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        # What is pressed before its script listens is lost: the page is to be there whole.
        page.wait_for_url(live_server + path, wait_until="load")


def test_keys_are_text_in_a_field_and_can_be_turned_off(
    page: Page, live_server: str, session: Session
) -> None:
    make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.keyboard.press("f")
    page.keyboard.type("j.x")
    expect(page.locator("#filter [name=kind]")).to_have_value("j.x")
    page.keyboard.press("Escape")
    expect(page.locator("#filter [name=kind]")).not_to_be_focused()

    page.goto(f"{live_server}/jobs")
    page.keyboard.press("?")
    page.uncheck("#keys-on")
    page.click("#help button")
    page.keyboard.press("x")
    page.keyboard.press("a")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_hidden()
    expect(page.locator("#panel tbody input:checked")).to_have_count(0)


def test_older_and_newer_pages_are_reached_by_keys(
    page: Page, live_server: str, session: Session
) -> None:
    for _ in range(60):
        make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")

    page.keyboard.press("]")
    expect(page.locator("#panel tbody tr")).to_have_count(10)
    page.keyboard.press("[")
    expect(page.locator("#panel tbody tr")).to_have_count(50)


def test_the_first_tab_stop_leads_past_the_navigation(page: Page, live_server: str) -> None:
    page.goto(f"{live_server}/jobs")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    assert page.evaluate("document.activeElement.id") == "main"
