"""Signing in as a person does it, and what happens on screen when a session ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session
from werkzeug.security import generate_password_hash

from queueapp.auth import Principal, Role
from queueapp.auth.people import Person
from queueapp.jobs import queries
from queueapp.jobs.status import Status
from tests.applications import application
from tests.browser.screen import refresh
from tests.factories import make_job

PASSWORD = "correct horse battery"
HASH = generate_password_hash(PASSWORD, method="scrypt:1024:8:1")


@pytest.fixture
def app(database_url: str) -> Iterator[Flask]:
    users = f"ana:operator:{HASH} ben:admin:{HASH}"
    with application(database_url, QUEUE_USERS=users) as app:
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


@pytest.fixture
def failed_job(session: Session) -> int:
    job_id = make_job(session, Status.FAILED).id
    session.commit()
    return job_id


@pytest.fixture
def waiting_job(session: Session) -> int:
    job_id = make_job(session, Status.QUEUED).id
    session.commit()
    return job_id


@pytest.fixture
def jobs(page: Page, live_server: str, failed_job: int, waiting_job: int) -> Page:
    """The list, as somebody signed in sees it who is about to act."""
    page.goto(f"{live_server}/jobs?kind=demo.echo")
    sign_in(page)
    expect(page.locator(f"#job-{waiting_job}")).to_be_visible()
    expect(page.locator(f"#job-{failed_job}")).to_be_visible()
    return page


def make(app: Flask, role: Role) -> None:
    """Give ana another role, as a new entry does."""
    app.extensions["queue_people"]["ana"] = Person(Principal("ana", "user", role), HASH)


def untouched(session: Session, *jobs: int) -> bool:
    """Whether these have only what made them in the ledger."""
    session.rollback()
    lines = [line for job_id in jobs for line in queries.events_of(session, job_id)]
    return not {line.event for line in lines} & {"requeued", "cancelled"}


def test_a_role_that_is_lowered_takes_the_buttons_away_and_says_who_may(
    jobs: Page, app: Flask, session: Session, failed_job: int, expected_errors: list[str]
) -> None:
    expected_errors.append("403")
    jobs.locator(f"#job-{failed_job} [data-verb=retry]").click()
    asked = jobs.get_by_role("dialog")
    expect(asked).to_be_visible()

    make(app, Role.VIEWER)
    asked.locator("form button.button--main").click()

    expect(asked).to_be_hidden()
    expect(jobs.locator("#notice")).to_contain_text("operators and admins may")
    # The panel of the next refresh is that of a viewer.
    expect(jobs.locator("#panel [data-verb]")).to_have_count(0)
    expect(jobs.locator("#panel")).to_contain_text("for operators and admins")
    assert untouched(session, failed_job)


def test_a_refresh_that_is_refused_says_once_who_may_and_goes_on_when_it_is_granted(
    jobs: Page, app: Flask, failed_job: int, expected_errors: list[str]
) -> None:
    expected_errors.append("403")
    notice, note = jobs.locator("#notice"), jobs.locator("#as-of-note")

    make(app, Role.PRODUCER)
    refresh(jobs)

    expect(notice).to_contain_text("viewers, operators and admins may")
    expect(note).to_contain_text("not allowed any more, retrying in")
    expect(jobs.locator(f"#job-{failed_job}")).to_be_visible()
    jobs.evaluate("document.querySelector('#notice').replaceChildren()")
    refresh(jobs)
    assert notice.inner_text() == "", "it is said once for all refusals in a row"

    make(app, Role.OPERATOR)
    refresh(jobs)
    expect(note).to_have_text("")
    make(app, Role.PRODUCER)
    refresh(jobs)
    expect(notice).to_contain_text("viewers, operators and admins may")
    make(app, Role.OPERATOR)
    refresh(jobs)
    expect(notice).to_have_text("")


@pytest.mark.parametrize("act", ["retry", "cancel", "page on", "bulk"])
def test_whatever_is_pressed_after_a_session_has_ended_leads_to_the_sign_in_and_back(
    jobs: Page,
    live_server: str,
    session: Session,
    failed_job: int,
    waiting_job: int,
    act: str,
    expected_errors: list[str],
) -> None:
    expected_errors.append("401")
    # No refresh comes before it.
    jobs.locator("#pause").click()
    if act == "retry":
        jobs.locator(f"#job-{failed_job} [data-verb=retry]").click()
        expect(jobs.get_by_role("dialog")).to_be_visible()
    if act == "bulk":
        jobs.locator(f"#job-{failed_job} input[name=id]").check()
    jobs.context.clear_cookies()
    refreshes: list[str | None] = []
    jobs.on("request", lambda request: refreshes.append(request.headers.get("hx-target")))

    if act == "retry":
        jobs.locator("dialog form button.button--main").click()
    elif act == "cancel":
        jobs.locator(f"#job-{waiting_job} [data-verb=cancel]").click()
    elif act == "bulk":
        jobs.locator("#ticked .ticked__bar [value=retry]").click()
    else:
        jobs.get_by_role("link", name="queued").click()

    heading = jobs.get_by_role("heading", name="Sign in")
    expect(heading).to_have_count(1)
    assert jobs.locator("#panel").count() == 0, "nothing is nested"
    assert "section#panel" not in refreshes, "it would lead there without a word of what was undone"
    undone = jobs.get_by_text("You were signed out, so nothing was done.")
    expect(undone).to_have_count(1 if act == "retry" else 0)
    assert untouched(session, failed_job, waiting_job)
    sign_in(jobs)
    expect(jobs).to_have_url(re.compile(f"^{live_server}/jobs\\?"))
    assert ("status=queued" in jobs.url) is (act == "page on")
    expect(jobs.locator(f"#job-{waiting_job}")).to_be_visible()
