"""The first page: what a browser fetches for it, and what a phone shows of it."""

from __future__ import annotations

from playwright.sync_api import Page, Request, expect
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.failure import described
from queueapp.jobs.status import Status
from tests.browser.screen import refresh, width_of_content
from tests.factories import HOLDER, claim_one, make_job, outcome
from tests.scenes import Scene


def size_of(request: Request) -> int:
    return request.sizes()["responseBodySize"]


def test_the_first_page_and_its_polls_are_small_on_the_wire(
    page: Page, live_server: str, session: Session
) -> None:
    for _ in range(120):
        make_job(session, Status.FAILED)
    session.commit()
    asked: list[Request] = []

    def note(request: Request) -> None:
        asked.append(request)

    page.on("requestfinished", note)
    page.goto(live_server)
    page.wait_for_load_state("networkidle")
    polled = {request for request in asked if "hx-request" in request.headers}

    first = [request for request in asked if request not in polled]
    assert len(first) == 6, [request.url for request in first]
    assert 10_000 < sum(map(size_of, first)) < 60_000
    for path in ("/", "/jobs", "/events"):
        page.goto(live_server + path)
        assert size_of(refresh(page).request) < 15_000, path


def test_a_phone_shows_of_each_cause_what_waits_and_what_failed(
    page: Page, live_server: str, session: Session
) -> None:
    Scene(session).worker()
    for _ in range(3):
        job = make_job(session)
        failure = described("ConnectionRefusedBecauseNobodyListensError", "no account 1")
        ends = [outcome(claim_one(session, job.id), "retry", failure=failure, delay_s=60)]
        transitions.settle(session, ends, actor=HOLDER.name)
        session.commit()
    page.set_viewport_size({"width": 390, "height": 844})

    page.goto(live_server)

    row = page.locator("tr[id^=group-]")
    name = row.locator(".error-class").bounding_box()
    assert name is not None
    assert name["width"] > 300
    for label, number in (("failed", "0"), ("to be retried", "3")):
        cell = row.locator(f"[data-label='{label}']")
        expect(cell).to_be_visible()
        expect(cell).to_have_text(number)
        said = cell.evaluate("cell => getComputedStyle(cell, '::before').content")
        assert said.startswith(f'"{label}')
    assert width_of_content(page) <= 390
