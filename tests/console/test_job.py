"""The page of one job: everything there is to know, nothing that could break it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.orm import Session

from queueapp import judgement
from queueapp.jobs import control, queries, transitions
from queueapp.jobs.queries import bodies
from queueapp.jobs.status import FINAL, Status
from queueapp.jobs.verdict import Finding, Level, Step, Verdict
from queueapp.judgement import Look
from tests.console.conftest import Console, words
from tests.console.test_causes import TRACE
from tests.factories import HOLDER, claim_one, make_job, outcome
from tests.scenes import Scene, ago


def test_a_failed_job_shows_its_error_with_the_traceback(
    console: Console, session: Session
) -> None:
    job = make_job(session, max_attempts=1)
    data = {"traceback": "Traceback: line 88, in deliver", "run_ms": 1250, "error_class": "Oops"}
    claim = claim_one(session, job.id)
    transitions.settle(session, [outcome(claim, "fail", data=data)], actor="worker:w1")
    session.commit()

    page = console.get(f"/jobs/{job.id}")
    shown = words(page)

    # Whoever had its attempt, and the worker among the actors of its events.
    assert page.count(f'href="/workers/{HOLDER.name}"') == 1
    assert page.count('href="/workers/worker:w1"') == 1
    assert f"failed {job.id} demo.echo" in shown
    assert "attempts 1 of 1" in shown
    assert "ValueError no such thing" in shown
    assert "Traceback: line 88, in deliver" in shown
    assert "1.25 s failed" in shown


def test_own_frames_come_first_and_the_whole_traceback_below(
    console: Console, session: Session
) -> None:
    job = make_job(session, max_attempts=1)
    claim = claim_one(session, job.id)
    ends = [outcome(claim, "fail", data={"traceback": TRACE})]
    transitions.settle(session, ends, actor="worker:w1")
    session.commit()

    page = console.get(f"/jobs/{job.id}")
    [frames] = re.findall(r'<ol class="frames".*?</ol>', page, re.DOTALL)
    [whole] = re.findall(r'<details id="traceback">.*?</details>', page, re.DOTALL)

    assert words(frames) == "send /srv/shop/mail.py:12 render(<template>)"
    assert page.index(frames) < page.index(whole)
    assert words(whole).startswith("The whole traceback of attempt 1, ")
    assert "site-packages/http/client.py" in words(whole)


def test_a_running_job_shows_its_lease_and_progress(console: Console, session: Session) -> None:
    job = make_job(session, Status.RUNNING, progress=42, progress_note="page 3 of 7")
    session.commit()

    page = console.get(f"/jobs/{job.id}")
    shown = words(page)

    assert f"held by {job.locked_by}" in shown
    assert "when last is not known" in shown
    assert f"lease token {str(job.lease_token)[:8]}" in shown
    assert '<progress max="100" value="42"' in page
    assert "42 % page 3 of 7" in shown


def test_a_job_that_has_ended_shows_no_progress(console: Console, session: Session) -> None:
    ended = [make_job(session, s, progress=97).id for s in (Status.FAILED, Status.SUCCEEDED)]
    session.commit()

    for job_id in ended:
        assert "97 %" not in console.get(f"/jobs/{job_id}")


def test_when_a_lease_was_last_renewed_is_said_as_the_reason_says_it(
    console: Console, session: Session
) -> None:
    scene = Scene(session)
    scene.worker(lease_s=300, seen=230)
    job = scene.running(250, lease_expires_at=ago(-70))

    shown = words(console.get(f"/jobs/{job.id}"))

    [why] = re.findall(r"its lease was last renewed (.*?) ago", shown)
    assert re.fullmatch("3 min 5. s", why)
    assert re.search("while it lives; last 3 min 5. s ago lease token", shown)
    unknown = scene.running(250, by="worker:unheard:1:aa")
    assert "while it lives; when last is not known" in words(console.get(f"/jobs/{unknown.id}"))


def test_an_overdue_lease_is_said_to_be(console: Console, session: Session) -> None:
    now = queries.database_now(session)
    job = make_job(session, Status.RUNNING, lease_expires_at=now)
    session.commit()

    assert "ago) overdue" in words(console.get(f"/jobs/{job.id}"))


@pytest.mark.parametrize("status", Status)
def test_the_page_refreshes_itself_until_the_job_is_over(
    console: Console, session: Session, status: Status
) -> None:
    job = make_job(session, status)
    session.commit()

    polls = "every 2s" in console.panel(f"/jobs/{job.id}").text

    assert polls is (status not in FINAL)


def test_numbers_in_a_payload_keep_every_digit(console: Console, session: Session) -> None:
    job = make_job(session, payload={"big": 123456789012345678901234567890})
    session.commit()

    assert "123456789012345678901234567890" in console.get(f"/jobs/{job.id}")


def test_a_large_payload_is_cut_and_offered_whole(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(session, payload={"text": "x" * 400_000})
    session.commit()

    page = console.get(f"/jobs/{job.id}")

    assert len(page) < 330_000
    assert f'href="/api/jobs/{job.id}" download' in page
    assert "390.6 KiB" in words(page)
    assert bodies.BODY_LIMIT == 256 * 1024


def test_a_long_history_shows_its_end_and_leads_to_the_rest(
    console: Console, session: Session
) -> None:
    job = make_job(session)
    for _ in range(110):
        claim = claim_one(session, job.id)
        transitions.settle(session, [outcome(claim, "release")], actor=HOLDER.name)
    session.commit()

    page = console.get(f"/jobs/{job.id}")

    assert page.count('<tr id="event-') == 200
    assert f'href="/events?job={job.id}"' in page
    assert "handed back 110 times" in words(page)


def test_a_job_that_nobody_has_claimed_says_what_the_ledger_has_of_it(
    console: Console, session: Session
) -> None:
    job = make_job(session, available_at=datetime(2030, 1, 1, tzinfo=UTC))
    transitions.hold(session, [job.id], actor="user:ana")
    session.commit()

    shown = words(console.get(f"/jobs/{job.id}"))

    assert "No attempt is among the 2 events below." in shown
    assert "The ledger has nothing" not in shown


def test_a_job_asked_to_stop_is_not_asked_again(console: Console, session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    transitions.cancel(session, [job.id], actor="user:ana")
    session.commit()

    page = console.get(f"/jobs/{job.id}")

    assert "asked to stop" in words(page)
    assert f"/jobs/{job.id}/cancel" not in page


@pytest.mark.parametrize("result", [{"a": 1}, [1, 2], "text", 0, False])
def test_any_result_is_shown(console: Console, session: Session, result: Any) -> None:
    job = make_job(session, Status.SUCCEEDED, result=result)
    session.commit()

    assert "Result" in words(console.get(f"/jobs/{job.id}"))


def test_a_waiting_job_says_why_and_what_to_do(console: Console, session: Session) -> None:
    job = make_job(session)
    control.pause(session, actor="user:ana", reason="<b>upgrade</b>")
    session.commit()

    page = console.get(f"/jobs/{job.id}")

    assert "The queue was paused by user:ana 0." in words(page)
    assert "(&lt;b&gt;upgrade&lt;/b&gt;)" in page
    assert "Ask who paused it" in words(page)
    assert "Also: No worker is running" in words(page)
    assert f'href="/api/jobs/{job.id}/why"' in page


@pytest.mark.parametrize(
    ("status", "is_told"),
    [(Status.QUEUED, True), (Status.FAILED, False), (Status.CANCELLED, False)],
)
def test_what_was_to_be_done_about_a_job_is_told_until_it_ends(
    console: Console,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    status: Status,
    is_told: bool,
) -> None:
    """The verdict may be from a moment before somebody cancelled it."""
    job = make_job(session, status, error_class="LeaseLost")
    session.commit()
    told = {"job_id": job.id, "status": "queued"}
    step = Step("Hold or cancel the job.")
    finding = Finding("worker_killer", "Killer", Level.RED, "It kills.", step, None, told)
    look = Look(Verdict(finding, (), datetime.now(UTC)), None)
    monkeypatch.setattr(judgement, "present", lambda *_, **__: look)

    shown = words(console.get(f"/jobs/{job.id}"))

    assert ("Hold or cancel the job." in shown) is is_told
    # One step and no other.
    assert "Start flask work" not in shown


@pytest.mark.parametrize("status", FINAL)
def test_a_job_that_has_ended_needs_no_why(
    console: Console, session: Session, status: Status
) -> None:
    job = make_job(session, status)
    session.commit()

    assert 'class="why"' not in console.get(f"/jobs/{job.id}")
