"""Forms that come back within the page, and what only scripts can do: copying."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs import control
from queueapp.jobs.status import Status
from tests.console.test_causes import fail
from tests.factories import make_job

pytestmark = pytest.mark.slow


def send_unchecked(page: Page, form: str) -> None:
    """Send a form although the browser itself would keep it back."""
    page.locator(form).evaluate("form => { form.noValidate = true; form.requestSubmit(); }")


def test_a_dialog_stays_open_with_what_was_typed(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors.append("422")
    make_job(session)
    session.commit()
    page.goto(live_server)
    page.click("[data-verb=pause]")
    page.select_option("dialog [name=minutes]", "30")
    page.fill("dialog [name=reason]", " ")

    send_unchecked(page, "dialog #confirm form")

    said = page.locator("#wrong-reason")
    expect(said).to_contain_text("Say why")
    expect(page.locator("#dialog")).to_have_attribute("open", "")
    expect(page.locator("dialog [name=reason]")).to_be_focused()
    expect(page.locator("dialog [name=minutes]")).to_have_value("30")
    page.fill("dialog [name=reason]", "migration")
    page.click("dialog [data-verb=pause]")
    expect(page.locator("#notice")).to_contain_text("The queue is paused")


def test_a_wrong_number_of_jobs_stands_beside_its_field(
    page: Page,
    live_server: str,
    session: Session,
    expected_errors: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected_errors.append("422")
    monkeypatch.setattr("queueapp.console.operation_story.CLICK", 2)
    for _ in range(3):
        make_job(session, Status.FAILED)
    session.commit()
    page.goto(f"{live_server}/operations/new?status=failed")
    page.fill("[name=reason]", "back")
    page.click("#plan-form [data-verb=retry]")

    page.fill("[name=count]", "4")
    page.click("#begin button")

    expect(page.locator("#wrong-count")).to_contain_text("type 3, the number of jobs")
    expect(page.locator("[name=count]")).to_be_focused()
    expect(page.locator("[name=count]")).to_have_value("4")
    page.fill("[name=count]", "3")
    page.click("#begin button")
    expect(page.locator("#operation-title")).to_have_text("Done: 3 jobs retried")


def test_a_filter_marks_its_field_and_a_link_has_fixed_times(
    page: Page, live_server: str, session: Session
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{live_server}/audit?since=-2h")
    page.fill("[name=until]", "-3h")
    page.press("[name=until]", "Enter")
    expect(page.locator("[name=until]")).to_have_attribute("aria-invalid", "true")
    page.fill("[name=until]", "")
    page.press("[name=until]", "Enter")
    expect(page.locator("[name=until]")).not_to_have_attribute("aria-invalid", "true")

    page.click("[data-copy-link]")

    expect(page.locator("#notice")).to_have_text("The link is copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"http://[^?]+/audit\?since=20\d\d-[^&]+Z", link)


def test_the_id_of_a_job_and_its_command_are_copied(
    page: Page, live_server: str, session: Session
) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{live_server}/jobs/{job.id}")

    page.click("text=Copy id")
    expect(page.locator("#notice")).to_have_text("The job id is copied.")
    assert page.evaluate("navigator.clipboard.readText()") == str(job.id)
    page.click("text=Copy as curl")
    expect(page.locator("#notice")).to_have_text("The command is copied.")
    assert (
        page.evaluate("navigator.clipboard.readText()") == f"curl {live_server}/api/jobs/{job.id}"
    )


def test_a_reason_typed_beside_a_hold_stands_in_its_question(
    page: Page, live_server: str, session: Session
) -> None:
    fingerprint = fail(session, kind="demo.fail")
    session.commit()
    page.goto(f"{live_server}/errors/{fingerprint}")
    page.fill("#group-verbs [name=reason]", "the provider is down")

    page.click("#group-verbs [data-verb=hold]")

    expect(page.locator("#dialog [name=reason]")).to_have_value("the provider is down")
    page.click("#dialog button[data-verb=hold]")
    expect(page.locator("#notice")).to_contain_text("The kind is on hold")
    session.rollback()
    hold = control.in_force(session).stop_of("kind:demo.fail")
    assert hold is not None
    assert hold.reason == "the provider is down"
    page.fill("#group-verbs [name=reason]", "it is back")
    page.click("#group-verbs [data-verb=unhold]")
    expect(page.locator("#dialog [name=reason]")).to_have_value("it is back")
    expect(page.locator("#dialog [name=spread]")).to_have_value("10")


def test_what_was_typed_into_a_question_that_is_refused_stands_in_it_again(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors += ["409", "Failed to fetch", "ERR_FAILED"]
    make_job(session)
    session.commit()
    page.goto(f"{live_server}/kinds/demo.echo")
    reason = page.locator("#dialog [name=reason]")
    page.click(".kind-page [data-verb=hold]")
    reason.fill("the provider is down")
    # Somebody holds the kind, and lifts that again.
    for act in (control.hold_kind, control.unhold_kind):
        act(session, "demo.echo", actor="user:bo", reason="maintenance")
        session.commit()
    page.click("#dialog button[data-verb=hold]")
    expect(page.locator("#notice")).to_contain_text("user:bo")
    expect(page.locator("#dialog")).to_be_hidden()

    page.click(".kind-page [data-verb=hold]")
    expect(page.locator("#dialog")).to_have_attribute("open", "")
    expect(reason).to_have_value("the provider is down")

    page.route("**/hold", lambda route: route.abort())
    page.click("#dialog button[data-verb=hold]")
    expect(page.locator("#notice")).to_contain_text("There was no answer")
    page.unroute("**/hold")
    page.click(".kind-page [data-verb=hold]")
    expect(page.locator("#dialog")).to_have_attribute("open", "")
    expect(reason).to_have_value("the provider is down")
    page.click("#dialog button[data-verb=hold]")
    expect(page.locator("#notice")).to_contain_text("The kind is on hold")


def test_a_question_outlasts_a_browser_that_is_offline(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors += ["Failed to fetch", "ERR_INTERNET_DISCONNECTED", "htmx:error"]
    make_job(session)
    session.commit()
    page.goto(live_server)
    expect(page.locator("#pause")).to_have_text("Live")
    page.click("[data-verb=pause]")
    page.fill("#dialog [name=reason]", "the provider is down")
    page.select_option("#dialog [name=minutes]", "30")

    page.context.set_offline(True)

    expect(page.locator("#pause")).to_have_text("Offline")
    expect(page.locator("#as-of-note")).to_contain_text("offline")
    for _ in range(2):
        page.click("#dialog button[data-verb=pause]")
        expect(page.locator("#dialog [role=alert]")).to_have_text(
            "This browser is offline: nothing was sent."
        )
    expect(page.locator("#dialog")).to_have_attribute("open", "")
    expect(page.locator("#dialog [name=reason]")).to_have_value("the provider is down")
    expect(page.locator("#dialog [name=minutes]")).to_have_value("30")

    page.context.set_offline(False)

    expect(page.locator("#pause")).to_have_text("Live")
    expect(page.locator("#dialog [role=alert]")).to_have_count(0)
    page.click("#dialog button[data-verb=pause]")
    expect(page.locator("#notice")).to_contain_text("The queue is paused")
    expect(page.locator("#as-of-note")).to_have_text("")
    session.rollback()
    pause = control.in_force(session).pause
    assert pause is not None
    assert pause.reason == "the provider is down"
