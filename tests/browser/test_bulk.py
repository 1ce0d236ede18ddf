"""From a filter of the list to all its jobs and back again, with scripts."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, Page, expect
from sqlalchemy.orm import Session

from queueapp.console import operations as views
from queueapp.jobs.models import Job
from queueapp.jobs.operations import driver, planning, walk
from tests.factories import make_job


def test_all_that_match_are_counted_cancelled_and_put_back(
    page: Page, live_server: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In looks and batches of two, each asked for by the page itself."""
    monkeypatch.setattr(walk, "find_candidates", lambda *_: None)
    monkeypatch.setattr(walk, "SCAN_LIMIT", 2)
    monkeypatch.setattr(planning, "COUNT_S", -1.0)
    monkeypatch.setattr(driver, "BATCH", 2)
    monkeypatch.setattr(views, "LONGEST_S", 0)
    for kind in ("a.b", "a.b", "c", "a.b", "a.b", "a.b"):
        make_job(session, kind=kind)
    session.commit()
    statuses = sa.select(Job.status).where(Job.kind == "a.b")
    title = page.locator("#operation-title")
    page.goto(f"{live_server}/jobs?kind=a.b")

    page.click("text=All that match…")
    page.fill("[name=reason]", "a runaway producer")
    page.click("#plan-form [data-verb=cancel]")
    expect(title).to_have_text("Cancel 5 jobs?")
    page.click("#begin button")
    expect(title).to_have_text("Done: 5 jobs cancelled")
    assert set(session.scalars(statuses)) == {"cancelled"}
    session.rollback()

    page.fill("#undo [name=reason]", "the wrong kind")
    page.click("#undo button")
    expect(title).to_have_text("Put back 5 jobs?")
    page.click("#begin button")

    expect(title).to_have_text("Done: 5 jobs put back")
    assert set(session.scalars(statuses)) == {"queued"}


@pytest.mark.parametrize("with_scripts", [True, False])
def test_what_is_typed_into_the_filter_counts_for_all_that_match(
    browser: Browser, live_server: str, session: Session, with_scripts: bool
) -> None:
    """Whoever types and takes all that match at once must not plan for more than was asked for."""
    for kind in ("a.b", "c", "c"):
        make_job(session, kind=kind, producer="shop")
    session.commit()
    context = browser.new_context(java_script_enabled=with_scripts)
    page = context.new_page()
    page.goto(f"{live_server}/jobs?status=queued&producer=shop")
    page.click("#filter-more summary")
    page.fill("#filter [name=since]", "-2h")
    page.fill("#filter [name=kind]", "a.b")

    page.click("text=All that match…")

    expect(page.locator("#plan-title")).to_have_text("1 job matches")
    address = page.url.removeprefix(live_server)
    assert address == "/operations/new?status=queued&kind=a.b&producer=shop&since=-2h"
    context.close()
