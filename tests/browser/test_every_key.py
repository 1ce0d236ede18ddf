"""Each key that the help names does what it says there: none can be forgotten here."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.factories import make_job

# In the rows, the newest first: one that can be cancelled, all others can be retried.
ROWS = "#panel tbody tr.job-row"
Check = Callable[[Page], None]


def _at(row: int) -> Check:
    def check(page: Page) -> None:
        expect(page.locator(ROWS).nth(row)).to_have_attribute("data-current", "")

    return check


def _asks(title: str) -> Check:
    return lambda page: expect(page.locator("#dialog h2")).to_have_text(re.compile(title))


def _has_focus(where: str) -> Check:
    return lambda page: expect(page.locator(where)).to_be_focused()


def _ticked(number: int) -> Check:
    boxes = "#panel tbody input:checked"
    return lambda page: expect(page.locator(boxes)).to_have_count(number)


def _rows(number: int) -> Check:
    return lambda page: expect(page.locator(ROWS)).to_have_count(number)


def _is_paused(page: Page) -> None:
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press(".")
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "false")


def _is_copied(page: Page) -> None:
    expect(page.locator("#notice")).to_have_text("The link is copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def _is_job(page: Page) -> None:
    expect(page).to_have_url(re.compile(r"/jobs/\d+$"))


def _is_shut(page: Page) -> None:
    expect(page.locator("dialog[open]")).to_have_count(0)


# What is pressed before, the key, and what is so then.
KEYS: dict[str, tuple[tuple[str, ...], Check]] = {
    "/": ((), _has_focus("#jump")),
    "f": ((), _has_focus("#filter [name=kind]")),
    "j": ((), _at(0)),
    "k": (("j", "j"), _at(0)),
    "Enter": (("j",), _is_job),
    "x": (("j",), _ticked(1)),
    "a": ((), _ticked(50)),
    "r": (("j", "j"), _asks(r"^Retry job \d+\?$")),
    "c": (("j",), _asks(r"^Cancel job \d+\?$")),
    "]": ((), _rows(10)),
    "[": (("]",), _rows(50)),
    ".": ((), _is_paused),
    "Shift+R": ((), _rows(50)),
    "y": ((), _is_copied),
    "?": ((), _has_focus("#help button")),
    "Esc": (("?",), _is_shut),
}


def listed(page: Page) -> list[str]:
    """The keys of the help, as one presses them: ``g+n``, ``Shift+R``, ``j``."""
    page.keyboard.press("?")
    found: list[str] = []
    for row in page.locator("#help .keys dt").all():
        keys = row.locator("kbd").all_inner_texts()
        found += ["+".join(keys)] if keys[0] in ("g", "Shift") else keys
    return found


def test_each_key_of_the_help_does_what_it_says(
    page: Page, live_server: str, session: Session
) -> None:
    for _ in range(59):
        make_job(session, Status.FAILED)
    make_job(session, Status.HELD)
    session.commit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{live_server}/jobs")
    named = listed(page)
    places = {
        f"g+{link.get_attribute('data-key')}": link.get_attribute("href")
        for link in page.locator("[data-key]").all()
    }
    assert set(named) == {*KEYS, *places}

    for key, (before, check) in KEYS.items():
        page.goto(f"{live_server}/jobs")
        for pressed in before:
            page.keyboard.press(pressed)
            if pressed == "]":
                # What is pressed before the next page is there whole is lost.
                page.wait_for_url("**/jobs?before=*")
        if key == "Shift+R":
            with page.expect_response(lambda one: one.request.resource_type == "fetch"):
                page.keyboard.press(key)
        else:
            page.keyboard.press({"Esc": "Escape"}.get(key, key))
        check(page)
    for key, path in places.items():
        page.goto(f"{live_server}/jobs" if path != "/jobs" else live_server)
        page.keyboard.press("g")
        page.keyboard.press(key[-1])
        page.wait_for_url(f"{live_server}{path}")
