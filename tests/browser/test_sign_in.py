"""Signing in as a person does it, and what happens on screen when a session ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from playwright.sync_api import Page, expect
from werkzeug.security import generate_password_hash

from tests.applications import application

PASSWORD = "correct horse battery"
HASH = generate_password_hash(PASSWORD, method="scrypt:1024:8:1")


@pytest.fixture
def app(database_url: str) -> Iterator[Flask]:
    with application(database_url, QUEUE_USERS=f"ana:operator:{HASH}") as app:
        yield app


def sign_in(page: Page) -> None:
    page.get_by_label("Name").fill("ana")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_a_session_that_ends_while_the_page_refreshes_leads_to_the_sign_in_and_back(
    page: Page, live_server: str, expected_errors: list[str]
) -> None:
    expected_errors.append("401")
    page.goto(f"{live_server}/jobs?status=failed")
    sign_in(page)
    expect(page).to_have_url(f"{live_server}/jobs?status=failed")
    expect(page.get_by_role("button", name="Sign out ana")).to_be_visible()
    page.set_viewport_size({"width": 1440, "height": 900})
    assert page.evaluate("document.querySelector('.top').offsetHeight") < 50

    page.context.clear_cookies()
    page.wait_for_url(re.compile(r"/login\?next="), timeout=30_000)
    expect(page.get_by_role("heading", name="Sign in")).to_have_count(1)
    sign_in(page)
    expect(page).to_have_url(f"{live_server}/jobs?status=failed")

    page.get_by_role("button", name="Sign out ana").click()
    expect(page).to_have_url(f"{live_server}/login")
