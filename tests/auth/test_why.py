"""Why a job waits, to a producer: its own jobs only, and nothing of those of others."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.auth import Role
from queueapp.jobs import control
from queueapp.jobs.models import Job
from queueapp.jobs.status import Event
from tests.auth.conftest import bearer
from tests.factories import HOLDER, claim_one, make_job


@pytest.fixture
def busy(guarded: Flask, session: Session) -> tuple[int, int]:
    """A job of somebody else that keeps the only thread, and one of the producer behind it."""
    told = {"slots": 1, "lost": 0, "kinds": ["demo.echo"], "lease_s": 60, "nameless": True}
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


def test_a_worker_elsewhere_counts_as_one(caller: FlaskClient, session: Session) -> None:
    def why(job_id: int) -> dict[str, Any]:
        found = caller.get(f"/api/jobs/{job_id}/why", headers=bearer(Role.VIEWER)).json
        assert found is not None
        return {**found["evidence"], "rule": found["rule"], "sentence": found["sentence"]}

    def lease(**asked: Any) -> list[int]:
        answer = caller.post("/api/leases", json=asked, headers=bearer(Role.WORKER))
        assert answer.json is not None, answer.text
        return [one["id"] for one in answer.json["items"]]

    first, second = make_job(session).id, make_job(session).id
    session.commit()
    assert why(first)["rule"] == "no_live_worker"

    assert lease(kinds=["demo.sleep"]) == []
    other = why(first)
    assert (other["rule"], other["live_kinds"]) == ("no_worker_for_kind", ["demo.sleep"])

    assert lease(kinds=["demo.echo"], max=1, lease=600) == [first]
    held, behind = why(first), why(second)
    assert (held["rule"], held["holder"]) == ("running", "token:the-worker")
    assert (held["holder_is_live"], held["is_silent"]) == (True, False)
    assert held["renewed_at"][:21] == held["claimed_at"][:21]
    assert behind["rule"] == "slots_busy"
    assert [behind[name] for name in ("workers", "slots", "busy")] == [1, 1, 1]
    assert behind["longest"]["holder"] == "token:the-worker"

    # One name with two sets of kinds is one worker, whose jobs are counted once.
    assert lease(kinds=["a.b", "demo.echo"], max=2) == [second]
    third = make_job(session)
    session.commit()
    assert why(third.id)["rule"] == "next_in_line"
    assert [why(third.id)[name] for name in ("workers", "slots", "busy")] == [1, 3, 2]

    session.execute(sa.update(Job).where(Job.id == first).values(lease_expires_at=Job.created_at))
    session.commit()
    assert why(first)["rule"] == "lease_expired"
    assert "no live worker is known that would take it back" in why(first)["sentence"]
