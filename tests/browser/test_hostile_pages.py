"""Stored text that would like to be markup or a script does nothing, on any page or in a dialog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from playwright.sync_api import Locator, Page, Request, expect
from sqlalchemy.orm import Session

from queueapp.jobs import control, operations
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.browser.screen import refresh, width_of_content
from tests.console.hostile import TEXT, make_hostile_jobs

FINGERPRINT = "0123456789abcdef"
NAME = quote(TEXT, safe="")
SCRIPTS = "document.querySelectorAll('script').length"


class Visitor:
    """Opens pages, and notes what they asked for by themselves."""

    def __init__(self, page: Page, root: str) -> None:
        self._page, self._root = page, root
        self._opened: list[str] = []
        self.astray: list[str] = []
        page.on("request", self._note)
        page.on("dialog", lambda dialog: pytest.fail("a script has run"))

    def _note(self, request: Request) -> None:
        at = request.url.removeprefix(self._root)
        if at.startswith("/static/") or at in self._opened:
            return
        self.astray.append(f"{request.resource_type} {request.url}")

    def open(self, path: str, *, status: int = 200) -> None:
        """Open it; there are no scripts but ours, and nothing is wider than the window."""
        self._opened.append(path)
        answer = self._page.goto(self._root + path, wait_until="load")
        assert answer is not None
        assert answer.status == status, path
        self.look(path)

    def ask(self, button: Locator) -> None:
        """Have what a button asks opened in the dialog, and shut it again."""
        path = button.get_attribute("href") or ""
        self._opened.append(path)
        button.click()
        expect(self._page.locator("#dialog")).to_be_visible()
        self.look(f"the dialog of {path}")
        self._page.keyboard.press("Escape")
        expect(self._page.locator("#dialog")).to_be_hidden()

    def look(self, where: str) -> None:
        assert width_of_content(self._page) <= 1280, where
        assert self._page.evaluate(SCRIPTS) == 3, where


@pytest.fixture
def visitor(page: Page, live_server: str) -> Iterator[Visitor]:
    visitor = Visitor(page, live_server)
    yield visitor
    assert visitor.astray == []


@contextmanager
def a_session_named(text: str, engine: sa.Engine) -> Iterator[None]:
    """A session of that name stands in the way of a statement, for the page of the system."""
    with engine.connect() as one:
        one.execute(sa.text("SELECT set_config('application_name', :name, false)"), {"name": text})
        one.execute(sa.text("LOCK TABLE job_events IN SHARE UPDATE EXCLUSIVE MODE"))
        yield
        one.invalidate()


def test_hostile_text_runs_nowhere_and_breaks_no_layout(
    page: Page, visitor: Visitor, session: Session
) -> None:
    ids = make_hostile_jobs(session)

    for path in ("/", "/jobs", "/errors", "/events", *(f"/jobs/{job_id}" for job_id in ids)):
        visitor.open(path)
        # The same again as a fragment that htmx looks through.
        session.execute(sa.update(Job).values(progress=Job.progress + 1))
        session.add(JobEvent(job_id=ids[0], kind=TEXT, event=TEXT, actor=TEXT, reason=TEXT))
        session.commit()
        assert refresh(page).status == 200
        assert page.locator("#panel").count() == 1, path
        visitor.look(path)

    session.execute(sa.update(Job).values(error_fingerprint=FINGERPRINT))
    session.commit()
    visitor.open(f"/errors/{FINGERPRINT}")
    for path in ("/workers", f"/workers/{NAME}", f"/workers/release?worker={NAME}"):
        visitor.open(path)


@pytest.fixture
def switched(session: Session) -> list[int]:
    """The hostile jobs, some of a hostile kind; whatever can be said in words is hostile."""
    ids = make_hostile_jobs(session)
    session.execute(sa.update(Job).where(Job.attempts > 0).values(kind=TEXT))
    session.execute(sa.update(Job).values(error_fingerprint=FINGERPRINT))
    for name in ("a.b", TEXT):
        control.hold_kind(session, name, actor=f"user:{TEXT}", reason=TEXT)
    control.pause(session, actor=f"user:{TEXT}", reason=TEXT)
    session.commit()
    return ids


def test_hostile_kinds_acts_and_plans_run_nowhere(
    page: Page,
    visitor: Visitor,
    session: Session,
    engine: sa.Engine,
    switched: list[int],
    expected_errors: list[str],
) -> None:
    # Of the answers that say that there is no such thing.
    expected_errors += ["400", "404"]
    where = JobFilter(status=(Status.HELD, Status.FAILED))
    made = [
        operations.plan(
            session, operations.survey(session, verb, where), how={}, actor=f"user:{TEXT}",
            reason=TEXT,
        ).id
        for verb in ("cancel", "cancel")
    ]  # fmt: skip
    session.commit()
    operations.advance(session, made[1], actor=f"user:{TEXT}")
    session.commit()

    shown = ("/kinds", "/kinds/a.b", "/audit", f"/audit?actor={NAME}")
    for path in (*shown, "/operations", *(f"/operations/{one}" for one in made)):
        visitor.open(path)
        session.add(JobEvent(scope=TEXT, event="kind_held", actor=f"user:{TEXT}", reason=TEXT))
        session.execute(sa.update(Job).values(progress=Job.progress + 1))
        session.commit()
        assert refresh(page).status in (200, 304)
        visitor.look(path)
    with a_session_named(TEXT[:60], engine):
        visitor.open("/system")
    asked = "&".join(f"id={job_id}" for job_id in switched)
    for path in (
        f"/jobs/bulk?verb=cancel&{asked}", f"/operations/new?kind={NAME}&status=failed",
        "/resume", "/kinds/a.b/unhold", "/settings", "/help",
        f"/jobs?kind={NAME}", f"/events?kind={NAME}", f"/errors?kind={NAME}",
    ):  # fmt: skip
        visitor.open(path)
    # No job that waits may have such a kind.
    for path in (f"/go?q=no-{NAME}", f"/kinds/{NAME}", f"/kinds/{NAME}/unhold"):
        visitor.open(path, status=404)


def test_hostile_text_does_nothing_in_a_dialog(
    page: Page, visitor: Visitor, switched: list[int]
) -> None:
    for path in ("/kinds", "/kinds/a.b", "/", "/jobs"):
        visitor.open(path)
        button = page.locator("#main a[data-verb]:visible").first
        visitor.ask(button)
    for job_id in switched:
        visitor.open(f"/jobs/{job_id}")
        buttons = page.locator(".job__verbs a[data-verb]:visible")
        for place in range(buttons.count()):
            visitor.ask(buttons.nth(place))
