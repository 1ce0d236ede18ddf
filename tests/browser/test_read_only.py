"""A page that is open while everything becomes read-only, and again while it ceases to be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flask import Flask
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.browser.screen import refresh, width_of_content
from tests.factories import make_job


def set_read_only(app: Flask, patch: pytest.MonkeyPatch, *, on: bool) -> None:
    settings = replace(app.extensions["queue_settings"], read_only=on)
    patch.setitem(app.extensions, "queue_settings", settings)


def test_verbs_go_and_the_header_says_why(
    page: Page, live_server: str, app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/jobs")
    said, verb = page.locator("#read-only"), page.locator("[data-verb=retry]").first
    expect(verb).to_be_visible()
    expect(said).to_be_hidden()

    set_read_only(app, monkeypatch, on=True)
    refresh(page)

    expect(said).to_have_text(
        "Read-only: QUEUE_READ_ONLY is set, so nothing can be changed from here."
    )
    expect(said).to_be_visible()
    expect(page.locator("#panel [data-verb]")).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 844})
    assert width_of_content(page) <= 390

    set_read_only(app, monkeypatch, on=False)
    refresh(page)

    expect(said).to_be_hidden()
    expect(verb).to_be_visible()


def test_a_question_that_was_open_is_refused_with_the_reason(
    page: Page,
    live_server: str,
    app: Flask,
    session: Session,
    expected_errors: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected_errors.append("403")
    make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.locator("tbody [data-verb=retry]").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_be_visible()

    set_read_only(app, monkeypatch, on=True)
    asked.locator("form button.button--main").click()

    expect(page.locator("#notice")).to_contain_text("QUEUE_READ_ONLY")
    expect(asked).to_be_hidden()
    expect(page.locator("#panel [data-verb]")).to_have_count(0)
