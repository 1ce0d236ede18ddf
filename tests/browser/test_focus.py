"""Where the keyboard goes on after a question: never from the top of the window again."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.status import Status
from tests.console.test_causes import fail
from tests.console.test_workers import DEAD, held_by, sign
from tests.factories import make_job
from tests.live.processes import until

# Where the focus is: the row that it is in, else what names the element itself.
PLACE = """(() => {
  const at = document.activeElement;
  const row = at.closest("tr[id]");
  return row ? row.id : at.dataset.verb || at.id || at.name || at.localName;
})()"""


def place(page: Page) -> str:
    found: str = page.evaluate(PLACE)
    return found


def answer(page: Page, verb: str, told: str, reason: str = "") -> None:
    """Answer the question in the dialog by keys alone, and see the page after its refresh."""
    expect(page.locator("#dialog-title")).to_be_focused()
    if reason:
        page.locator("#dialog [name=reason]").focus()
        page.keyboard.type(reason)
    page.locator(f"#dialog button[data-verb={verb}]").focus()
    with page.expect_response(lambda one: one.request.headers.get("hx-target") == "section#panel"):
        page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text(told)
    expect(page.locator("#dialog")).to_be_hidden()
    page.wait_for_load_state("networkidle")


def press(page: Page, selector: str) -> None:
    page.locator(selector).focus()
    page.keyboard.press("Enter")


def test_a_row_that_stays_keeps_the_focus_and_one_that_goes_gives_it_to_the_next(
    page: Page, live_server: str, session: Session
) -> None:
    one, two, three = (make_job(session, Status.FAILED).id for _ in range(3))
    session.commit()
    page.goto(f"{live_server}/jobs")
    page.keyboard.press("j")
    page.keyboard.press("r")
    answer(page, "retry", "Retrying 1 job")
    until(lambda: place(page) == f"job-{three}", "the row has it", 10)

    page.goto(f"{live_server}/jobs?status=failed")
    page.keyboard.press("j")
    page.keyboard.press("r")
    answer(page, "retry", "Retrying 1 job")
    until(lambda: place(page) == f"job-{one}", "the next row has it", 10)
    # The keys go on there as well.
    page.keyboard.press("r")
    expect(page.locator("#dialog-title")).to_have_text(f"Retry job {one}?")
    answer(page, "retry", "Retrying 1 job")
    expect(page.locator(f"#job-{two}")).to_have_count(0)
    until(lambda: place(page) == "main", "the page has it", 10)


def test_a_question_that_is_left_gives_the_focus_back(
    page: Page, live_server: str, session: Session, expected_errors: list[str]
) -> None:
    expected_errors.append("409")
    job = make_job(session, Status.FAILED).id
    session.commit()
    page.goto(f"{live_server}/jobs")
    press(page, f"#job-{job} [data-verb=retry]")
    expect(page.locator("#dialog-title")).to_be_focused()
    page.keyboard.press("Escape")
    assert place(page) == f"job-{job}"

    press(page, f"#job-{job} [data-verb=retry]")
    expect(page.locator("#dialog-title")).to_be_focused()
    transitions.requeue(session, [job], actor="user:bo")
    session.commit()
    page.locator("#dialog button[data-verb=retry]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#dialog")).to_be_hidden()
    expect(page.locator(f"#job-{job} .status")).to_have_text("queued")
    until(lambda: place(page) == f"job-{job}", "the row has it", 10)


@pytest.mark.parametrize(
    ("path", "pressed", "verb", "told", "then"),
    [
        ("/", "#switches [data-verb=pause]", "pause", "The queue is paused", "resume"),
        ("/jobs/{job}", ".job__verbs [data-verb=retry]", "retry", "Retrying 1 job", "run-now hold"),
        ("/errors/{cause}", "#group-verbs [data-verb=hold]", "hold", "on hold", "unhold"),
        ("/kinds/demo.echo", ".kind-page [data-verb=hold]", "hold", "on hold", "unhold"),
        ("/kinds", "#kind-demo\\.echo [data-verb=hold]", "hold", "on hold", "kind-demo.echo"),
        ("/workers", "[data-verb=release]", "release", "Released", f"worker-{DEAD}"),
    ],
)
def test_after_a_verb_the_focus_is_where_the_next_one_is(
    page: Page,
    live_server: str,
    session: Session,
    path: str,
    pressed: str,
    verb: str,
    told: str,
    then: str,
) -> None:
    cause = fail(session, kind="demo.fail")
    job = make_job(session, Status.FAILED)
    sign(session, DEAD, ago_s=400)
    held_by(session, DEAD, 1)
    session.commit()
    page.goto(live_server + path.format(job=job.id, cause=cause))

    press(page, pressed)
    answer(page, verb, told, reason="because")

    until(lambda: place(page) in then.split(), f"the focus is on {then}", 10)
