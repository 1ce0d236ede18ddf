"""Why a job waits, to a producer: its own jobs only, and nothing of those of others."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.auth import Role
from queueapp.jobs import control
from queueapp.jobs.status import Event
from tests.auth.conftest import bearer
from tests.factories import HOLDER, claim_one, make_job


@pytest.fixture
def busy(guarded: Flask, session: Session) -> tuple[int, int]:
    """A job of somebody else that keeps the only thread, and one of the producer behind it."""
    told = {"slots": 1, "lost": 0, "kinds": ["demo.echo"], "lease_s": 60}
    control.record(session, Event.WORKER_SEEN, scope="worker:w", actor="worker:w", data=told)
    theirs = make_job(session)
    session.commit()
    claim_one(session, theirs.id, type(HOLDER)("worker:w", lease_s=60))
    mine = make_job(session, producer="the-producer")
    session.commit()
    return theirs.id, mine.id


def test_a_producer_hears_of_its_own_jobs_without_those_of_others(
    caller: FlaskClient, session: Session, busy: tuple[int, int]
) -> None:
    theirs, mine = busy

    def ask(job_id: int, role: Role) -> tuple[int, str]:
        answer = caller.get(f"/api/jobs/{job_id}/why", headers=bearer(role))
        return answer.status_code, answer.text

    status, text = ask(mine, Role.PRODUCER)
    assert (status, '"rule": "slots_busy"' in text, '"longest": null' in text) == (200, True, True)
    assert "at job" not in text
    assert f"at job {theirs} (demo.echo)" in ask(mine, Role.VIEWER)[1]
    assert ask(theirs, Role.PRODUCER)[0] == 404
    assert ask(theirs, Role.WORKER)[0] == 403

    make_job(session, priority=1)
    session.commit()
    status, text = ask(mine, Role.PRODUCER)
    assert (status, '"rule": "jobs_ahead"' in text) == (200, True)
    assert '"All threads that run its kind are busy with other jobs."' in text
    assert "at job" not in text
