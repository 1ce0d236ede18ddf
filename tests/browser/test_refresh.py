"""The refresh changes the data and leaves the reader's own things alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import BrowserContext, Page, Route, expect
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.status import Status
from tests.browser.screen import refresh, row_ids
from tests.factories import make_job


def test_ticks_stay_on_their_jobs_while_rows_change_and_move(
    page: Page, live_server: str, session: Session
) -> None:
    ids = [make_job(session, Status.FAILED).id for _ in range(6)]
    session.commit()
    page.goto(f"{live_server}/jobs?status=failed")
    page.check(f"#job-{ids[1]} input")
    page.check(f"#job-{ids[4]} input")

    for gone in (ids[5], ids[2], ids[4]):
        transitions.requeue(session, [gone], actor="user:ana")
        session.commit()
        refresh(page)

    expect(page.locator(f"#job-{ids[1]} input")).to_be_checked()
    assert page.locator("#panel tbody input:checked").count() == 1
    expect(page.locator("#ticked-count")).to_have_text("1 ticked, 1 have moved on:")
    assert row_ids(page) == [ids[3], ids[1], ids[0]]


def test_focus_caret_and_typed_text_survive(page: Page, live_server: str, session: Session) -> None:
    job = make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.focus(f"#job-{job.id} a.id")

    make_job(session, Status.FAILED)
    session.commit()
    refresh(page)

    assert page.evaluate("document.activeElement.textContent") == str(job.id)

    page.fill("#filter [name=producer]", "sho")
    page.evaluate("document.activeElement.setSelectionRange(1, 2)")
    make_job(session)
    session.commit()
    refresh(page)
    caret = "[document.activeElement.value, document.activeElement.selectionStart]"
    assert page.evaluate(caret) == ["sho", 1]


def test_what_was_opened_stays_open(page: Page, live_server: str, session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    session.commit()
    page.goto(f"{live_server}/jobs/{job.id}")
    opened = page.locator("#panel details").first
    opened.locator("summary").click()

    transitions.cancel(session, [job.id], actor="user:ana")
    session.commit()
    refresh(page)

    expect(page.get_by_text("cancel requested").first).to_be_visible()
    name = opened.get_attribute("id")
    assert page.locator("#panel details[open]").count() == 1
    assert name is not None


def test_the_page_stays_where_it_was_scrolled_to(
    page: Page, live_server: str, session: Session
) -> None:
    for _ in range(50):
        make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.evaluate("scrollTo(0, 600)")
    first = page.evaluate("document.elementFromPoint(300, 400).closest('tr').id")

    for _ in range(5):
        make_job(session)
    session.commit()
    refresh(page)

    assert page.evaluate("scrollY") == 600
    assert page.evaluate("document.elementFromPoint(300, 400).closest('tr').id") == first
    expect(page.locator("#newer")).to_have_text("5 newer – show")
    page.click("#newer a")
    expect(page.locator("#newer")).to_have_count(0)
    assert len(row_ids(page)) == 50


def test_the_log_waits_while_somebody_reads_on_below(
    page: Page, live_server: str, session: Session
) -> None:
    for _ in range(50):
        make_job(session, Status.SUCCEEDED)
    session.commit()
    page.goto(f"{live_server}/events")
    page.mouse.move(600, 500)
    page.mouse.wheel(0, 900)
    expect(page.locator("#as-of-note")).to_have_text("· waits while you read")
    top = page.evaluate("document.elementFromPoint(300, 400).closest('tr').id")

    clock = page.inner_text("#as-of time")
    newer = page.locator("#newer")
    expect(newer).to_be_hidden()
    make_job(session)
    session.commit()
    expect(newer).to_have_text("1 new – show")
    expect(page.locator("#live")).to_contain_text("There are new events.")
    job = make_job(session)
    session.commit()
    expect(newer).to_have_text("2 new – show")
    # What is shown is of then.
    assert page.evaluate("document.elementFromPoint(300, 400).closest('tr').id") == top
    assert page.inner_text("#as-of time") == clock
    expect(page.locator("#as-of-note")).to_have_text("· waits while you read")

    page.click("#newer a")
    expect(page.locator("#panel tbody tr").first).to_contain_text(str(job.id))
    expect(newer).to_be_hidden()
    expect(page.locator("#as-of-note")).to_have_text("")
    assert page.evaluate("scrollY") == 0


def test_back_at_the_top_the_log_goes_on_by_itself(
    page: Page, live_server: str, session: Session
) -> None:
    for _ in range(50):
        make_job(session, Status.SUCCEEDED)
    session.commit()
    page.goto(f"{live_server}/events")
    assert page.get_attribute("#panel", "role") == "log"
    assert page.get_attribute("#panel", "aria-live") == "off"
    page.mouse.move(600, 500)
    page.mouse.wheel(0, 900)
    expect(page.locator("#as-of-note")).to_have_text("· waits while you read")
    job = make_job(session)
    session.commit()
    expect(page.locator("#newer")).to_have_text("1 new – show")

    page.mouse.wheel(0, -2_000)
    expect(page.locator("#panel tbody tr").first).to_contain_text(str(job.id))
    expect(page.locator("#as-of-note")).to_have_text("")


def test_nothing_new_is_answered_with_304_and_swaps_nothing(
    page: Page, live_server: str, session: Session
) -> None:
    make_job(session, Status.FAILED)
    session.commit()
    for path in ("/", "/jobs", "/jobs/1", "/events"):
        page.goto(live_server + path)
        page.evaluate(
            "window.swaps = 0; document.addEventListener('htmx:after:settle', () => window.swaps++)"
        )

        # A transaction of another database may end in between: then once more.
        assert 304 in [refresh(page).status for _ in range(3)], path
        before = page.evaluate("swaps")
        if refresh(page).status == 304:
            assert page.evaluate("swaps") == before, path

    make_job(session)
    session.commit()
    assert refresh(page).status == 200


def test_the_panel_asks_by_itself_and_moves_the_clock(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session, Status.RUNNING)
    session.commit()
    page.goto(f"{live_server}/jobs/{job.id}")
    as_of = page.text_content("#as-of time")

    transitions.cancel(session, [job.id], actor="user:ana")
    session.commit()

    expect(page.get_by_text("asked to stop").first).to_be_visible(timeout=8_000)
    assert page.text_content("#as-of time") != as_of


def test_a_finished_job_is_not_asked_for_again(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs/{job.id}")
    transitions.cancel(session, [job.id], actor="user:ana")
    session.commit()
    expect(page.locator("h1 .status")).to_have_text("cancelled", timeout=8_000)

    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2_600)

    assert asked == []


def test_paused_by_button_or_key_nothing_is_asked_until_it_goes_on(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs/{job.id}")
    page.click("#pause")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2_600)
    assert asked == []
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "true")

    # The next page is paused as well.
    page.goto(f"{live_server}/jobs/{job.id}")
    expect(page.locator("#pause")).to_have_text("Frozen")
    transitions.cancel(session, [job.id], actor="user:ana")
    session.commit()
    page.keyboard.press(".")
    expect(page.locator("h1 .status")).to_have_text("cancelled", timeout=1_500)


def test_a_refresh_that_fails_keeps_the_page_and_says_how_old_it_is(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors += ["503", "Failed to load", "htmx:error"]
    job = make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")
    broken = True

    def fail(route: Route) -> None:
        if broken:
            route.fulfill(status=503, headers={"Retry-After": "7"}, body="<p>no</p>")
        else:
            route.continue_()

    page.route("**/jobs", fail)
    refresh(page)

    expect(page.locator("#as-of-note")).to_have_text(re.compile(r"no answer, retrying in \d+ s"))
    expect(page.locator("#panel")).to_have_attribute("data-stale", "")
    assert row_ids(page) == [job.id]
    assert page.text_content("#notice") == ""

    broken = False
    refresh(page)
    expect(page.locator("#as-of-note")).to_have_text("")
    expect(page.locator("#panel[data-stale]")).to_have_count(0)


def test_no_answer_at_all_is_the_same(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors += ["Failed to fetch", "ERR_FAILED", "htmx:error"]
    make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.route("**/jobs", lambda route: route.abort())

    page.evaluate("htmx.trigger(document.querySelector('#panel'), 'refresh')")

    expect(page.locator("#as-of-note")).to_have_text(re.compile("retrying in"))
    assert len(row_ids(page)) == 1


def test_a_hidden_tab_asks_once_a_minute(
    context: BrowserContext, page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs/{job.id}")
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    asked: list[str] = []
    # The browser itself asks for an icon when it likes.
    page.on(
        "request",
        lambda request: asked.append(request.url) if request.resource_type == "fetch" else None,
    )

    page.wait_for_timeout(2_600)
    assert asked == []
    # Title and icon of a tab behind others stay right.
    with page.expect_response(lambda answer: answer.request.resource_type == "fetch"):
        page.evaluate("refresh.at -= HIDDEN_WAIT")
    expect(page.locator("#panel.htmx-request")).to_have_count(0)

    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(300)
    assert len(asked) == 2


def test_what_is_told_in_one_moment_is_all_heard(page: Page, live_server: str) -> None:
    page.goto(f"{live_server}/jobs")

    page.evaluate(
        """for (const text of ["Retrying 1 job.", "The queue: Stalled.", "Retrying 1 job."])
            say(document.querySelector("#live"), text)"""
    )

    expect(page.locator("#live")).to_have_text("Retrying 1 job. The queue: Stalled.")


def test_what_comes_by_itself_is_told_every_ten_seconds_at_the_most(
    page: Page, live_server: str
) -> None:
    page.clock.install()
    # The first page alone waits for the verdict.
    page.goto(live_server)
    expect(page.locator("#badge")).to_be_attached()
    # Nothing is told but what the test has told.
    page.evaluate("Object.assign(refresh, { paused: true, heard: Infinity })")
    page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    # What the page itself had to tell is told, and ten seconds ago.
    page.clock.run_for(25_000)
    live = page.locator("#live")

    page.evaluate("showVerdict('red Stalled')")
    page.clock.run_for(100)
    expect(live).to_have_text("The queue: Stalled.")
    page.evaluate("showVerdict('amber Slow'); report('connection', 'The connection is back.')")
    page.clock.run_for(5_000)
    page.evaluate("showVerdict('green Healthy')")
    page.clock.run_for(4_000)
    expect(live).to_have_text("The queue: Stalled.")

    # What one does oneself is said at once.
    page.evaluate("say(document.querySelector('#live'), 'Copied.')")
    page.clock.run_for(100)
    expect(live).to_have_text("Copied.")

    page.clock.run_for(1_000)
    expect(live).to_have_text("The connection is back. The queue: Healthy.")


def test_what_is_shown_never_makes_way_for_what_another_process_read_before_it(
    page: Page, live_server: str, session: Session
) -> None:
    """Each web process has readings of its own; during an outage they stay apart."""
    job = make_job(session, Status.FAILED)
    session.commit()
    page.goto(live_server)
    # What the other process knows, and goes on to answer.
    asked = refresh(page).request.all_headers()
    asked.pop("hx-ptag")
    old = page.request.get(live_server, headers=asked)
    assert "hx-ptag" in old.headers
    transitions.requeue(session, [job.id], actor="user:ana")
    session.commit()
    refresh(page)
    newer = (page.inner_text("#panel"), page.get_attribute("#as-of time", "datetime"))
    other: dict[str, Any] = {"response": old}
    page.route(f"{live_server}/", lambda route: route.fulfill(**other))

    # A moment older is no news.
    refresh(page)
    assert (page.inner_text("#panel"), page.get_attribute("#as-of time", "datetime")) == newer
    expect(page.locator("#as-of-note")).to_have_text("")

    other["headers"] = {**old.headers, "queue-as-of": "2026-01-01T00:00:00.000Z"}
    refresh(page)
    assert (page.inner_text("#panel"), page.get_attribute("#as-of time", "datetime")) == newer
    expect(page.locator("#as-of-note")).to_have_text("· the last answer was older, so this stays")
    expect(page.locator("#panel")).to_have_attribute("data-stale", "")
    assert page.get_attribute("#badge", "data-level") == "red"

    # Nothing of now is known there; that is of now.
    other["headers"]["queue-verdict"] = "unknown Unknown"
    refresh(page)
    expect(page.locator("#badge")).to_have_attribute("data-level", "unknown")

    page.unroute(f"{live_server}/")
    answer = refresh(page)
    # What it has is not what the last answer bore the mark of.
    assert answer.status == 200
    expect(page.locator("#as-of-note")).to_have_text("")
    expect(page.locator("#panel[data-stale]")).to_have_count(0)
    assert page.get_attribute("#as-of time", "datetime") != newer[1]
