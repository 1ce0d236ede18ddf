"""Retry and cancel with the mouse: asked in a dialog, told in a notice, seen in the row."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect
from sqlalchemy.orm import Session

from queueapp.jobs import queries, transitions
from queueapp.jobs.status import Status
from tests.browser.screen import row_ids
from tests.factories import claim_one, make_job
from tests.live.processes import until


def test_retry_of_a_row_asks_acts_and_refreshes(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    # So the verdict is known when the list is drawn, and its badge has nothing to report.
    page.goto(live_server)
    page.goto(f"{live_server}/jobs?kind=demo.echo")

    page.click(f"#job-{job.id} [data-verb=retry]")
    dialog = page.locator("#dialog")
    expect(dialog.locator("h2")).to_have_text(f"Retry job {job.id}?")
    assert page.evaluate("document.activeElement.id") == "dialog-title"
    dialog.locator("[name=reason]").fill("smtp is back")
    dialog.locator("button[data-verb=retry]").click()

    expect(page.locator("#notice")).to_have_text("Retrying 1 job.")
    expect(dialog).to_be_hidden()
    expect(page.locator(f"#job-{job.id} .status")).to_have_text("queued")
    expect(page.locator("#live")).to_contain_text("Retrying 1 job.")
    assert page.url == f"{live_server}/jobs?kind=demo.echo"
    session.rollback()
    assert queries.events_of(session, job.id)[-1].reason == "smtp is back"


def test_retry_on_the_page_of_a_job_starts_its_refresh_again(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/jobs/{job.id}")

    page.click(".job__verbs [data-verb=retry]")
    page.click("#dialog button[data-verb=retry]")
    expect(page.locator("h1 .status")).to_have_text("queued")

    transitions.cancel(session, [job.id], actor="user:ana")
    session.commit()
    expect(page.locator("h1 .status")).to_have_text("cancelled", timeout=8_000)


def test_a_job_that_starts_behind_the_question_is_left_alone_and_asked_about_anew(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors.append("409")
    job = make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs/{job.id}")
    dialog = page.locator("#dialog")

    page.click(".job__verbs [data-verb=cancel]")
    expect(dialog).to_contain_text("It never runs.")
    claim_one(session, job.id)
    session.commit()
    dialog.locator("button[data-verb=cancel]").click()

    expect(page.locator("#notice")).to_contain_text(
        f"ob {job.id} has moved on since you were asked"
    )
    expect(dialog).to_be_hidden()
    session.rollback()
    assert queries.get_job(session, job.id).cancel_requested_at is None
    expect(page.locator("h1 .status")).to_have_text("running", timeout=8_000)
    page.click(".job__verbs [data-verb=cancel]")
    expect(dialog).to_contain_text("It runs: it is asked to stop")
    dialog.locator("button[data-verb=cancel]").click()
    expect(page.locator("#notice")).to_have_text("Asked 1 running job to stop.")


def test_ticked_jobs_are_cancelled_together(page: Page, live_server: str, session: Session) -> None:
    ids = [make_job(session).id for _ in range(5)]
    session.commit()
    page.goto(f"{live_server}/jobs?status=queued")
    expect(page.locator("#ticked button[value=cancel]")).to_be_disabled()

    page.check(f"#job-{ids[4]} input")
    page.locator(f"#job-{ids[2]} input").click(modifiers=["Shift"])
    expect(page.locator("#ticked-count")).to_have_text("3 ticked:")
    page.click("#ticked button[value=cancel]")
    expect(page.locator("#dialog h2")).to_have_text("Cancel 3 jobs?")
    page.click("#dialog button[data-verb=cancel]")

    expect(page.locator("#notice")).to_have_text("Cancelled 3 jobs.")
    expect(page.locator(f"#job-{ids[4]}")).to_have_count(0)
    assert row_ids(page) == [ids[1], ids[0]]
    expect(page.locator("#ticked-count")).to_have_text("")


def test_all_of_a_page_are_ticked_at_once(page: Page, live_server: str, session: Session) -> None:
    for _ in range(3):
        make_job(session)
    session.commit()
    page.goto(f"{live_server}/jobs")

    page.check("[data-tick-page]")
    expect(page.locator("#ticked-count")).to_have_text("3 ticked:")
    page.uncheck("[data-tick-page]")
    expect(page.locator("#panel tbody input:checked")).to_have_count(0)


def test_a_verb_that_comes_too_late_says_so_and_leaves_the_list(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors.append("409")
    job = make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.click(f"#job-{job.id} [data-verb=retry]")
    page.wait_for_selector("#dialog[open]")
    transitions.requeue(session, [job.id], actor="user:bob")
    session.commit()

    page.click("#dialog button[data-verb=retry]")

    expect(page.locator("#notice")).to_have_text(re.compile(f"Job {job.id} is queued"))
    expect(page.locator("#dialog")).to_be_hidden()
    expect(page.locator(f"#job-{job.id}")).to_be_visible()


def test_a_double_click_on_a_slow_link_retries_once(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.click(f"#job-{job.id} [data-verb=retry]")
    page.wait_for_selector("#dialog[open]")
    under_way: list[Route] = []

    def hold(route: Route) -> None:
        under_way.append(route)

    page.route("**/retry", hold)

    page.dblclick("#dialog button[data-verb=retry]")
    expect(page.locator("#dialog button[data-verb=retry]")).to_be_disabled()
    # The request is handed to us a moment after the button has been pressed.
    until(lambda: page.title() and under_way, "the request is under way")
    for route in under_way:
        route.continue_()

    expect(page.locator("#notice")).to_have_text("Retrying 1 job.")
    assert len(under_way) == 1
    session.rollback()
    events = [event.event for event in queries.events_of(session, job.id)]
    assert events.count("requeued") == 1


def test_no_answer_to_a_verb_is_said(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors += ["Failed to fetch", "ERR_FAILED"]
    job = make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.click(f"#job-{job.id} [data-verb=retry]")
    page.route("**/retry", lambda route: route.abort())

    page.click("#dialog button[data-verb=retry]")

    expect(page.locator("#notice")).to_have_text(re.compile("There was no answer."))
    expect(page.locator("#dialog")).to_be_hidden()


def test_leaving_it_as_it_is_changes_nothing_and_gives_the_focus_back(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.click(f"#job-{job.id} [data-verb=retry]")

    page.click("#dialog [data-close]")

    expect(page.locator("#dialog")).to_be_hidden()
    assert page.evaluate("document.activeElement.dataset.verb") == "retry"
    session.rollback()
    assert queries.get_job(session, job.id).status == "failed"
