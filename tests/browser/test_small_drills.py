"""Drills that are no incidents: who did this, hand it over, and a console that is slow itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs import control, queries, transitions
from queueapp.jobs.status import Status
from tests.browser.screen import refresh
from tests.browser.test_drills import Operator, Typist
from tests.factories import make_job
from tests.scenes import Scene

EACH_WAY = pytest.mark.parametrize("hands", [Operator, Typist])


@EACH_WAY
def test_who_did_this_takes_one_click(
    page: Page, live_server: str, session: Session, hands: type[Operator]
) -> None:
    job = make_job(session, Status.FAILED)
    transitions.cancel(session, [make_job(session).id], actor="user:ben", via="console")
    control.pause(session, actor="user:ben", reason="a migration")
    transitions.requeue(session, [job.id], actor="user:ana", reason="smtp is back", via="console")
    session.commit()
    operator = hands(page)
    page.goto(live_server)
    row = page.locator("[id^=action-]", has_text="smtp is back")
    # Who, what, to which job, when and why stand there without a click.
    for said in ("requeued", str(job.id), "user:ana"):
        expect(row).to_contain_text(said)

    operator.press(f"[id^=action-] a[href='/jobs/{job.id}']")

    expect(page.locator("main")).to_contain_text("smtp is back")
    expect(page.locator("main")).to_contain_text("user:ana")
    assert operator.clicks == 1


@EACH_WAY
@pytest.mark.parametrize("path", ["/audit?since=-2h", "/events?since=-2h", "/jobs?since=-2h"])
def test_handing_over_takes_one_click(
    page: Page, live_server: str, session: Session, hands: type[Operator], path: str
) -> None:
    transitions.cancel(session, [make_job(session).id], actor="user:ben", via="console")
    session.commit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    operator = hands(page)
    page.goto(live_server + path)

    operator.press("[data-copy-link]")

    expect(page.locator("#notice")).to_have_text("The link is copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(rf"{live_server}{path.partition('?')[0]}\?since=20\d\d-[^&]+Z", link)
    assert operator.clicks == 1
    # It shows whoever opens it the same list.
    page.goto(link)
    expect(page.locator("#panel tbody tr").first).to_be_visible()


@pytest.mark.postgresql("statement_timeout")
def test_a_slow_console_keeps_what_it_has_and_says_what_it_lacks_without_a_click(
    page: Page, live_server: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scene(session).minutes(wait={12: 10}, run={12: 1}, succeeded=10)
    make_job(session, Status.FAILED)
    session.commit()
    page.goto(live_server)
    parts = [page.locator(f"[aria-labelledby={name}-title]") for name in ("actions", "longest")]
    for part in parts:
        expect(part).not_to_contain_text("took longer than")
    as_of = page.get_attribute("#as-of time", "datetime")

    def slow(session: Session, *_args: Any, **_kwargs: Any) -> None:
        queries.bound_reads(session, seconds=0.01)
        session.execute(sa.text("SELECT pg_sleep(1)"))

    monkeypatch.setattr(queries, "last_actions", slow)
    monkeypatch.setattr(queries, "longest_running", slow)
    make_job(session, Status.FAILED)
    session.commit()
    refresh(page)

    for part in parts:
        expect(part).to_contain_text("the query took longer than 2 s and was stopped")
    # All else is there, and newer.
    expect(page.locator("#verdict")).to_be_visible()
    expect(page.locator("#panel .number")).to_have_count(5)
    expect(page.locator(".chart__plot").first).to_be_visible()
    expect(page.locator("[id^=group-]")).to_contain_text("2")
    assert page.get_attribute("#as-of time", "datetime") != as_of

    monkeypatch.undo()
    make_job(session)
    session.commit()
    refresh(page)
    for part in parts:
        expect(part).not_to_contain_text("took longer than")
