"""What a browser fetches for the first page, and for a refresh of it."""

from __future__ import annotations

from playwright.sync_api import Page, Request
from sqlalchemy.orm import Session

from queueapp.jobs.status import Status
from tests.browser.screen import refresh
from tests.factories import make_job


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
