"""Questions that were left open: what is done is done to the jobs as the question spoke of them."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import queries, transitions
from queueapp.jobs.status import Status
from tests.console.conftest import Console, words
from tests.factories import claim_one, make_job, outcome


def fields(page: str) -> dict[str, list[str]]:
    """The hidden fields of a question."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page):
        found.setdefault(name, []).append(value)
    return found


def events_of(session: Session, job_id: int) -> list[str]:
    session.rollback()
    return [event.event for event in queries.events_of(session, job_id)]


def test_a_job_that_has_started_is_not_stopped_by_a_question_that_said_it_never_runs(
    console: Console, session: Session
) -> None:
    job = make_job(session)
    session.commit()
    question = console.get(f"/jobs/{job.id}/cancel")
    assert "It never runs." in words(question)
    claim_one(session, job.id)
    session.commit()

    answer = console.click(f"/jobs/{job.id}/cancel", **fields(question))

    assert answer.status_code == 409
    assert f"ob {job.id} has moved on since you were asked" in words(answer.text)
    assert "cancel_requested" not in events_of(session, job.id)
    again = console.get(f"/jobs/{job.id}/cancel")
    assert console.click(f"/jobs/{job.id}/cancel", **fields(again)).status_code == 200
    assert events_of(session, job.id)[-1] == "cancel_requested"


def test_of_ticked_jobs_those_that_have_started_are_left_alone_and_counted(
    console: Console, session: Session
) -> None:
    waits, starts, over = (
        make_job(session, s).id for s in (Status.QUEUED, Status.QUEUED, Status.FAILED)
    )
    session.commit()
    ids = "&".join(f"id={one}" for one in (waits, starts, over))
    question = console.get(f"/jobs/bulk?verb=cancel&{ids}")
    assert "They never run." in words(question)
    claim_one(session, starts)
    session.commit()

    answer = console.click("/jobs/bulk", **fields(question))

    said = words(answer.text)
    assert "Cancelled 1 job. 1 had moved on since you were asked, or was locked just now" in said
    assert "1 was left alone: status does not allow it" in said
    assert "cancel_requested" not in events_of(session, starts)


def test_a_retry_that_is_sent_again_retries_once(console: Console, session: Session) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    form = fields(console.get(f"/jobs/{job.id}/retry"))
    assert console.post(f"/jobs/{job.id}/retry", **form).status_code == 303
    transitions.settle(session, [outcome(claim_one(session, job.id), "fail")], actor="worker:w")
    session.commit()

    again = console.post(f"/jobs/{job.id}/retry", **form)

    assert again.status_code == 409
    assert "it has run again, and is failed anew" in words(again.text)
    assert events_of(session, job.id).count("requeued") == 1


def test_a_reschedule_does_not_undo_what_somebody_did_meanwhile(
    console: Console, session: Session
) -> None:
    job = make_job(session)
    session.commit()
    path = f"/jobs/{job.id}/reschedule"
    mine, theirs = (fields(console.get(path)) for _ in range(2))
    assert console.post(path, **theirs, minutes="90").status_code == 303

    answer = console.post(path, **mine, minutes="5")

    assert answer.status_code == 409
    assert "waits in another place of the line" in words(answer.text)
    mine = fields(console.get(path))
    transitions.hold(session, [job.id], actor="user:bo", reason="wait")
    session.commit()
    held = words(console.post(path, **mine, minutes="5").text)
    assert "since you were asked: it is held now. Look again" in held
    transitions.unhold(session, [job.id], actor="user:bo", held_for="job")
    session.commit()
    assert events_of(session, job.id).count("rescheduled") == 1
    # The second of two clicks is calm.
    assert "done=reschedule.0.0.1" in console.post(path, **mine, minutes="90").location


def test_a_wait_that_is_over_by_itself_is_due_already(console: Console, session: Session) -> None:
    job = make_job(session, delay_s=3600)
    session.commit()
    form = fields(console.get(f"/jobs/{job.id}/run-now"))
    transitions.run_now(session, [job.id], actor="user:eve")
    session.commit()

    answer = console.click(f"/jobs/{job.id}/run-now", **form)

    assert "1 was left alone: due already" in words(answer.text)


@pytest.mark.parametrize("seen", ["", "1@queued", "x@queued@2026-01-31T08:00:00+00:00@0", "9999@"])
def test_a_form_that_does_not_say_what_it_showed_is_refused(
    console: Console, session: Session, seen: str
) -> None:
    job = make_job(session)
    session.commit()

    for path in (f"/jobs/{job.id}/cancel", f"/jobs/{job.id}/reschedule"):
        assert console.post(path, seen=seen, minutes="5").status_code == 400
    many = console.post("/jobs/bulk", verb="cancel", id=str(job.id), seen=seen)
    assert many.status_code == 400
    assert events_of(session, job.id) == ["enqueued"]


@pytest.mark.postgresql("instants that Python has not")
@pytest.mark.parametrize("due", ["infinity", "-infinity", "0044-03-15 BC", "12000-01-01"])
def test_a_due_time_that_python_has_not_is_seen_as_the_nearest(
    console: Console, session: Session, due: str
) -> None:
    job_id = make_job(session).id
    session.execute(sa.text(f"UPDATE jobs SET available_at = '{due}'"))
    session.commit()
    form = fields(console.get(f"/jobs/{job_id}/cancel"))

    answer = console.click(f"/jobs/{job_id}/cancel", **form)

    assert "Cancelled 1 job." in words(answer.text)
