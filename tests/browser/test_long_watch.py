"""Twenty refreshes with other data each time leave the reader's own things alone."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs import operations, transitions
from queueapp.jobs.models import Job
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status
from tests.browser.screen import refresh, row_ids
from tests.factories import make_job

ROUNDS = 20
FOCUSED = "document.activeElement.textContent.trim()"
UNDER_THE_EYE = "document.elementFromPoint(300, 400).closest('tr').id"

pytestmark = pytest.mark.slow


def test_ticks_focus_and_scroll_of_the_list_of_jobs(
    page: Page, live_server: str, session: Session
) -> None:
    ids = [make_job(session, Status.FAILED).id for _ in range(45)]
    session.commit()
    page.goto(f"{live_server}/jobs?status=failed")
    for ticked in (ids[20], ids[25]):
        page.check(f"#job-{ticked} input")
    page.locator(f"#job-{ids[22]} a.id").focus(timeout=5_000)
    page.evaluate("scrollTo(0, 420)")
    seen = page.evaluate(UNDER_THE_EYE)

    for number in range(ROUNDS):
        make_job(session, Status.FAILED, error_class=f"Error{number}")
        # One below the reader's rows leaves, and one beside them changes.
        transitions.requeue(session, [ids[number % 10]], actor="user:ana")
        session.execute(
            sa.update(Job).values(error_class=f"Changed{number}").where(Job.id == ids[23])
        )
        session.commit()
        assert refresh(page).status == 200
        expect(page.locator(f"#job-{ids[23]}")).to_contain_text(f"Changed{number}")
        assert page.evaluate("scrollY") == 420
        assert page.evaluate(UNDER_THE_EYE) == seen

    assert page.evaluate(FOCUSED) == str(ids[22])
    assert page.locator("#panel tbody input:checked").count() == 2
    for ticked in (ids[20], ids[25]):
        expect(page.locator(f"#job-{ticked} input")).to_be_checked()
    expect(page.locator("#ticked-count")).to_have_text("2 ticked:")
    expect(page.locator("#newer")).to_have_text(f"{ROUNDS} newer – show")
    page.click("#newer a")
    expect(page.locator("#newer")).to_have_count(0)
    assert len(row_ids(page)) == 50


def test_caret_and_text_of_the_filter(page: Page, live_server: str, session: Session) -> None:
    make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")
    field = page.locator("#filter [name=kind]")
    # As it stands while somebody is still typing: no change is told to the filter yet.
    field.focus()
    field.evaluate("one => { one.value = 'mail.sen'; one.setSelectionRange(3, 5); }")
    caret = "one => [one.value, one.selectionStart, one.selectionEnd]"

    for _ in range(ROUNDS):
        make_job(session)
        session.commit()
        assert refresh(page).status == 200
        assert field.evaluate(caret) == ["mail.sen", 3, 5]

    expect(field).to_be_focused()
    assert len(row_ids(page)) == ROUNDS + 1


def test_focus_and_scroll_of_the_list_of_operations(
    page: Page, live_server: str, session: Session
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    page.set_viewport_size({"width": 1280, "height": 500})

    def plan() -> str:
        found = operations.survey(session, "retry", JobFilter(status=(Status.FAILED,)))
        made = operations.plan(session, found, how={}, actor="user:ana", reason="r")
        session.commit()
        return made.id

    first, *_ = [plan() for _ in range(4)]
    page.goto(f"{live_server}/operations")
    link = page.locator(f"#panel a[href$='/operations/{first}']").first
    link.focus()

    for _ in range(ROUNDS):
        newest = plan()
        assert refresh(page).status == 200
        expect(page.locator("#panel tbody tr").first).to_contain_text(newest[:6])
        expect(link).to_be_focused()


def test_open_parts_focus_and_scroll_of_a_running_job(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session, Status.RUNNING, payload={f"field_{n}": n for n in range(60)})
    session.commit()
    page.set_viewport_size({"width": 1280, "height": 500})
    page.goto(f"{live_server}/jobs/{job.id}")
    # By itself it asks every two seconds as well.
    page.keyboard.press(".")
    parts = page.locator("#panel details")
    assert parts.count() > 0
    for part in parts.all():
        if part.get_attribute("open") is None:
            part.locator("summary").click()
    opened = page.locator("#panel details[open]").count()
    parts.last.locator("summary").focus()
    said = page.evaluate(FOCUSED)
    page.evaluate("scrollTo(0, 150)")

    for percent in range(1, ROUNDS + 1):
        session.execute(sa.update(Job).values(progress=percent, progress_note=f"page {percent}"))
        session.commit()
        assert refresh(page).status == 200
        expect(page.locator("#panel progress").first).to_have_attribute("value", str(percent))
        assert page.evaluate("scrollY") == 150

    assert page.locator("#panel details[open]").count() == opened
    assert page.evaluate(FOCUSED) == said
