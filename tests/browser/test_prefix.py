"""The console as a part of a larger site: nothing that one can press leads out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session
from werkzeug.security import generate_password_hash

from queueapp.jobs.status import Status
from tests.applications import application
from tests.browser.serving import served
from tests.factories import make_job
from tests.live.site import Site

PREFIX = "/ops/queue"
PASSWORD = "correct horse battery"
HASH = generate_password_hash(PASSWORD, method="scrypt:1024:8:1")
# Wherever an element could lead, or send something, as the browser understands it.
ADDRESSES = """
["href", "src", "action", "formaction", "hx-get", "hx-post"].flatMap(name =>
  [...document.querySelectorAll(`[${name}]`)].map(one => one.getAttribute(name))
  .filter(given => given && !given.startsWith("data:")).map(given => new URL(given, location).href))
"""
# They download something, or end the session.
NO_PAGES = re.compile(r"\.(csv|ndjson|json|svg|css|js)$|/api/|/logout$|/static/")


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    settings = {"QUEUE_PREFIX": PREFIX, "QUEUE_USERS": f"ana:admin:{HASH}"}
    with application(database_url, **settings) as app:
        site = Site(app, PREFIX)
        yield site
        assert site.astray == []


@pytest.fixture
def live_server(site: Site) -> Iterator[str]:
    with served(site) as root:
        yield root


@pytest.fixture
def home(page: Page, live_server: str, expected_errors: list[str]) -> str:
    """Where the console is; somebody has signed in."""
    expected_errors.append("401")
    home = live_server + PREFIX
    page.goto(f"{home}/jobs?status=failed")
    expect(page).to_have_url(re.compile(f"^{home}/login"))
    sign_in(page)
    expect(page).to_have_url(f"{home}/jobs?status=failed")
    return home


def sign_in(page: Page) -> None:
    page.get_by_label("Name").fill("ana")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_every_address_of_every_page_stays_within_the_prefix(
    page: Page, home: str, session: Session
) -> None:
    for status in (Status.FAILED, Status.RUNNING, Status.HELD):
        make_job(session, status)
    session.commit()
    left, seen = [f"{home}/"], set()

    while left:
        url = left.pop()
        seen.add(urlsplit(url).path)
        answer = page.goto(url)
        assert answer is not None
        assert answer.status == 200, url
        for address in set(page.evaluate(ADDRESSES)):
            assert f"{address}/".startswith(f"{home}/"), f"{address} on {url}"
            path = urlsplit(address).path
            if path in seen:
                continue
            seen.add(path)
            if not NO_PAGES.search(path) and page.request.get(address, max_redirects=0).ok:
                left.append(address)
            elif "/static/" in path:
                assert page.request.get(address).ok, address

    places = {path.removeprefix(PREFIX) for path in seen}
    assert {"/", "/jobs/1", "/kinds/demo.echo", "/jobs/3/clone", "/audit", "/help"} <= places
    assert len(places) > 50


def test_what_is_done_there_stays_there(page: Page, home: str, session: Session) -> None:
    ids = [make_job(session, Status.FAILED).id for _ in range(3)]
    session.commit()

    # A pushed address, and the box that jumps.
    page.fill("#filter [name=kind]", "demo.echo")
    page.press("#filter [name=kind]", "Enter")
    expect(page).to_have_url(f"{home}/jobs?status=failed&kind=demo.echo")
    page.fill("#jump", str(ids[0]))
    page.press("#jump", "Enter")
    page.wait_for_url(f"{home}/jobs/{ids[0]}")
    # One verb in a dialog.
    page.click(".job__verbs [data-verb=retry]")
    page.click("#dialog .button--main")
    expect(page.locator("#notice")).to_contain_text("Retrying 1 job")
    # All that match.
    page.goto(f"{home}/jobs?status=failed")
    page.click(".ticked__match")
    page.wait_for_url(f"{home}/operations/new?**")
    page.fill("#plan-form [name=reason]", "it is back")
    page.click("#plan-form [data-verb=retry]")
    page.click("#begin .button--main")
    expect(page.locator("#operation-title")).to_have_text("Done: 2 jobs retried")
    expect(page).to_have_url(re.compile(f"^{home}/operations/"))
    # A session that ends meanwhile.
    page.goto(f"{home}/jobs")
    page.context.clear_cookies()
    page.wait_for_url(f"{home}/login?next=**")
    sign_in(page)
    expect(page).to_have_url(f"{home}/jobs")
    page.get_by_role("button", name="Sign out ana").click()
    expect(page).to_have_url(f"{home}/login")
