"""What holds on every page: no sideways scrolling, readable in both themes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from sqlalchemy import text
from sqlalchemy.orm import Session
from werkzeug.security import generate_password_hash

from queueapp.jobs import control, operations
from queueapp.jobs.models import Job
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.applications import NOWHERE, application
from tests.browser.moving import moving
from tests.browser.screen import width_of_content
from tests.browser.serving import served
from tests.factories import make_job
from tests.scenes import Scene

Theme = Literal["light", "dark"]
PASSWORD = "correct horse battery"
HASH = generate_password_hash(PASSWORD, method="scrypt:1024:8:1")
# What is to be scrolled sideways and shows no shade where more is to be seen.
CUT = """[...document.querySelectorAll("main *")].filter(one => {
  const look = getComputedStyle(one);
  return /auto|scroll/.test(look.overflowX) && one.scrollWidth > one.clientWidth + 1
    && look.backgroundImage === "none";
}).map(one => one.className)"""
OPEN = "for (const one of document.querySelectorAll('main details')) one.open = true"


@pytest.fixture
def paths(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every page, over jobs of every status with long names and errors."""
    for status in Status:
        make_job(session, status, kind="a" * 60 + ".long")
    failed = make_job(
        session, Status.FAILED, error_class="some.module.Error" * 8, error_message="x" * 9_000
    )
    running = make_job(session, Status.RUNNING, progress=40, progress_note="page 3 of 7 " * 20)
    alike = session.get_one(Job, failed.id).error_fingerprint
    held = make_job(session, Status.HELD).id
    where = JobFilter(status=(Status.FAILED,))
    control.pause(session, actor="user:ana", reason="r" * 300, for_s=3600)
    control.hold_kind(session, "a" * 60 + ".long", actor="user:ana", reason="r" * 300)
    session.commit()
    Scene(session).minutes(wait={12: 1_000_000}, run={12: 1}, succeeded=1_000_000, failed=40_000)
    found = operations.survey(session, "retry", where)
    made = operations.plan(
        session, found, how={}, actor="user:ana", reason="r" * 300, canary=operations.Terms()
    )
    found = operations.survey(session, "purge", where)
    gone = operations.plan(session, found, how={}, actor="user:ana", reason="r" * 300)
    session.commit()
    return [
        "/",
        "/jobs",
        "/jobs?status=failed&kind=nothing",
        "/jobs?status=foo",
        f"/jobs/{failed.id}",
        f"/jobs/{running.id}",
        f"/jobs/{failed.id}/retry",
        f"/jobs/{held}/reschedule",
        f"/jobs/{held}/clone",
        f"/jobs/bulk?verb=cancel&id={held}&id={running.id}&id={failed.id}",
        f"/jobs/{failed.id}/purge",
        f"/operations/{gone.id}",
        "/errors",
        f"/errors/{alike}",
        f"/operations/{made.id}",
        *(f"/operations/{one}" for one in moving(session, monkeypatch)),
        "/operations",
        "/operations/new?status=failed",
        "/events",
        "/jobs?done=retry.2.0.1",
        "/api/docs/",
        "/workers",
        f"/workers/{running.locked_by}",
        f"/workers/release?worker={running.locked_by}",
        f"/workers/drain?worker={running.locked_by}",
        "/system",
        "/kinds",
        "/kinds?name=.",
        f"/kinds/{'a' * 60}.long",
        f"/kinds/{'a' * 60}.long/hold",
        f"/kinds/{'a' * 60}.long/unhold",
        "/pause",
        "/resume",
        "/audit",
        "/settings",
        "/help",
        "/go?q=demo",
    ]


@pytest.mark.parametrize("width", [390, pytest.param(1440, marks=pytest.mark.slow)])
def test_no_page_scrolls_sideways(
    page: Page, live_server: str, paths: list[str], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 844})

    for path in paths:
        page.goto(live_server + path)
        assert width_of_content(page) <= width, path
        assert page.evaluate(CUT) == [], path
        page.evaluate(OPEN)
        assert width_of_content(page) <= width, f"{path}, all opened"
        assert page.evaluate(CUT) == [], f"{path}, all opened"


def test_long_names_are_whole_on_a_phone(page: Page, live_server: str, session: Session) -> None:
    kind = "invoices.reminders-and_dunning-letters.for_customers_abroad.once-a-month"
    error = "ConnectionRefusedBecauseNobodyListensThereAnyMoreAtAllError"
    make_job(session, Status.FAILED, kind=kind, error_class=error, error_message="no")
    session.commit()
    page.set_viewport_size({"width": 390, "height": 844})

    page.goto(f"{live_server}/errors")
    group = page.locator(".cause a").first.get_attribute("href")
    for path in ("/errors", group, "/kinds", "/jobs", "/events"):
        page.goto(f"{live_server}{path}")
        names = page.locator("#panel :is(.kind, .error-class)", has_text="e").filter(visible=True)
        assert names.count(), path
        assert names.evaluate_all(SHORT) == [], path
        assert width_of_content(page) <= 390, path


def test_long_names_fit_windows_between_a_phone_and_a_screen(
    page: Page, live_server: str, session: Session
) -> None:
    for status in Status:
        make_job(
            session,
            status,
            kind="customers.monthly-invoices.reminders-of-payment",
            producer="checkout-service.production.eu-west-1b",
            error_class="requests.exceptions.ConnectionTimeoutError",
            locked_by="worker-12.internal:4711:9f3a" if status == Status.RUNNING else None,
        )
    session.commit()

    for path in ("/", "/jobs", "/errors", "/events", "/kinds", "/workers"):
        page.goto(live_server + path)
        for width in (720, 760, 800, 810, 900, 1024, 1090, 1280, 1366, 1440):
            page.set_viewport_size({"width": width, "height": 844})
            assert width_of_content(page) <= width, path


# What shows less than it has.
SHORT = """names => names.filter(one => one.scrollWidth > one.clientWidth)
  .map(one => one.textContent)"""


@pytest.mark.postgresql("a sequence of ids")
def test_the_longest_ids_stand_beside_their_kinds_on_a_phone(
    page: Page, live_server: str, session: Session
) -> None:
    session.execute(text(f"SELECT setval('jobs_id_seq', {2**63 - 10})"))
    job = make_job(session).id
    session.commit()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{live_server}/jobs")

    number = page.locator(f"#job-{job} a.id").bounding_box()
    kind = page.locator(f"#job-{job} .kind").bounding_box()

    assert number is not None
    assert kind is not None
    assert number["x"] + number["width"] <= kind["x"]
    assert width_of_content(page) <= 390


@pytest.mark.parametrize(
    ("theme", "width", "pages"),
    [
        # Some pages of each theme and width; all together take minutes.
        ("light", 1440, slice(0, None, 8)),
        ("dark", 390, slice(4, None, 8)),
        *(
            pytest.param(theme, width, slice(None), marks=pytest.mark.slow)
            for theme in ("light", "dark")
            for width in (1440, 390)
        ),
    ],
)
@pytest.mark.timeout(400)
def test_axe_finds_nothing_serious(
    browser: Browser,
    live_server: str,
    paths: list[str],
    theme: Theme,
    width: int,
    pages: slice,
) -> None:
    context = browser.new_context(
        color_scheme=theme,
        reduced_motion="reduce",
        viewport={"width": width, "height": 844},
    )
    # What an operation would go on with by itself is looked at as it stands.
    context.route(re.compile("/operations/.+/(apply|count)$"), lambda one: one.fulfill(status=204))
    page = context.new_page()

    found = {path: _serious(page, live_server + path) for path in paths[pages]}

    context.close()
    assert {path: faults for path, faults in found.items() if faults} == {}


def test_axe_finds_nothing_serious_in_an_empty_queue_and_a_dialog(
    page: Page, live_server: str, session: Session
) -> None:
    assert _serious(page, live_server) == []

    make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.click("[data-verb=retry] >> nth=1")
    page.wait_for_selector("#dialog[open]")
    assert _serious(page) == []


@pytest.fixture
def guarded(database_url: str) -> Iterator[str]:
    """Where people sign in, and some may only look."""
    with application(database_url, QUEUE_USERS=f"vic:viewer:{HASH}") as app, served(app) as root:
        yield root


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_where_one_may_not_or_cannot(
    browser: Browser, guarded: str, theme: Theme
) -> None:
    with ExitStack() as stack:
        app = stack.enter_context(application(NOWHERE))
        down = stack.enter_context(served(app))
        context = browser.new_context(color_scheme=theme, reduced_motion="reduce")
        stack.callback(context.close)
        page = context.new_page()
        found = {"503": _serious(page, f"{down}/jobs", 503)}
        page.goto(f"{guarded}/login")
        found["sign in"] = _serious(page)
        page.get_by_label("Name").fill("vic")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").first.wait_for()
        found["not that password"] = _serious(page)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{guarded}/")
        found["403"] = _serious(page, f"{guarded}/pause", 403)
        found["404"] = _serious(page, f"{guarded}/nothing", 404)

    assert {path: faults for path, faults in found.items() if faults} == {}


def test_the_theme_is_switched_and_kept(page: Page, live_server: str) -> None:
    page.goto(live_server)

    page.click("#theme")
    page.click("#theme")
    page.goto(f"{live_server}/jobs")

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 24)"


def _serious(page: Page, url: str | None = None, status: int | None = None) -> list[Any]:
    if url:
        answer = page.goto(url)
        assert answer is not None
        assert status is None or answer.status == status
    faults = Axe().run(page).response["violations"]
    return [
        (fault["id"], [node["html"][:200] for node in fault["nodes"]])
        for fault in faults
        if fault["impact"] in ("serious", "critical")
    ]
