"""Due times that have passed: how long such a job has waited, and where in the line it stands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from queueapp.jobs import transitions
from queueapp.jobs.queries import database_now, depth_by_priority
from queueapp.jobs.status import Status
from queueapp.jobs.why.facts import read
from tests.factories import HOLDER, make_job
from tests.jobs.people import PERSON, latest, reread

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("status", [Status.QUEUED, Status.HELD])
def test_a_reschedule_to_a_time_that_has_passed_makes_a_job_due_now(
    session: Session, status: Status
) -> None:
    job = make_job(session, status, delay_s=3600)
    before = database_now(session)

    [moved] = transitions.reschedule(
        session, [job.id], available_at=LONG_AGO, only_if_changed=True, **PERSON
    )

    due = reread(session, job).available_at
    assert moved.id == job.id
    assert before <= due < before + timedelta(hours=1)
    assert datetime.fromisoformat(latest(session, job.id).data["available_at"]) == due


def test_what_is_due_already_is_not_put_ahead_by_a_time_that_has_passed(session: Session) -> None:
    job = make_job(session)
    due = job.available_at

    how = {"available_at": LONG_AGO, "only_if_changed": True, **PERSON}
    assert transitions.reschedule(session, [job.id], **how) == []

    assert reread(session, job).available_at == due
    transitions.reschedule(session, [job.id], priority=3, **how)
    assert reread(session, job).available_at >= due


def test_a_job_created_for_a_time_that_has_passed_waits_since_it_is_there(session: Session) -> None:
    job = make_job(session, available_at=LONG_AGO)
    session.commit()

    [depth] = depth_by_priority(session)
    facts = read(session, job.id, job_timeout_s=60)

    assert (depth.oldest_id, depth.oldest_at) == (job.id, job.created_at)
    assert 0 <= facts.waited_s < 3600
    transitions.exchange(session, [], HOLDER, slots=1)
    assert 0 <= latest(session, job.id).data["wait_ms"] < 3_600_000
