"""Clone: a new job of what another one was asked to do, which stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy.orm import Session

from queueapp.api.intake import Intake
from queueapp.jobs import audit, queries
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status
from tests.api.conftest import Api, body, pointers, problem
from tests.factories import make_job

SAME = ("kind", "payload", "priority", "max_attempts", "timeout_s", "producer")
LIMITS: Any = {"priority": 7, "max_attempts": 2, "timeout_s": 9}


@pytest.mark.parametrize("status", Status)
def test_a_clone_asks_for_the_same_and_each_leads_to_the_other(
    api: Api, session: Session, status: Status
) -> None:
    key = {"key": "once", "request_hash": "kind=00000000"}
    old = make_job(session, status, producer="shop", **LIMITS, **key)
    session.commit()

    answer = api.post(f"/{old.id}/clone", json={"reason": "lost on its way"})

    assert answer.status_code == 201
    made = body(answer)
    assert answer.headers["Location"] == f"/api/jobs/{made['id']}"
    session.expire_all()
    new, was = queries.get_job(session, made["id"]), queries.get_job(session, old.id)
    assert [getattr(new, name) for name in SAME] == [getattr(was, name) for name in SAME]
    assert (new.status, new.attempts, new.idempotency_key) == ("queued", 0, None)
    assert new.available_at == new.created_at
    assert (was.status, was.idempotency_key) == (status, "once")
    [first], last = queries.events_of(session, new.id), queries.events_of(session, old.id)[-1]
    assert (first.event, first.data["cloned_from"]) == ("enqueued", old.id)
    assert (last.event, last.data["job"]) == ("cloned", new.id)
    assert (last.from_status, last.to_status, last.attempt) == (None, None, was.attempts)
    for line in (first, last):
        assert (line.actor, line.reason, line.data["via"]) == (
            "user:local", "lost on its way", "api"
        )  # fmt: skip
    *_, (_, report) = audit.check(session)
    assert report.clean, report.offenders


def test_each_request_makes_one_more(api: Api, session: Session) -> None:
    job = make_job(session)
    session.commit()

    first, second = (body(api.post(f"/{job.id}/clone"))["id"] for _ in range(2))

    assert first != second
    assert problem(api.post("/9999/clone")) == (404, "job_not_found")


@pytest.mark.parametrize(
    ("fields", "refusal", "pointer"),
    [
        ({"payload": {"seconds": "many"}, "kind": "demo.sleep"}, (422, "invalid_job"), "/payload"),
        ({"kind": "gone.away"}, (422, "unknown_kind"), "/kind"),
    ],
)
def test_what_its_handler_takes_no_more_is_not_cloned(
    api: Api, session: Session, fields: dict[str, Any], refusal: tuple[int, str], pointer: str
) -> None:
    job = make_job(session, Status.FAILED, **fields)
    session.commit()

    answer = api.post(f"/{job.id}/clone")

    assert problem(answer) == refusal
    assert f"nothing was cloned, a new job like {job.id} would be refused" in body(answer)["detail"]
    assert pointers(answer)[0].startswith(pointer)
    session.rollback()
    assert session.query(Job).count() == 1
    assert queries.events_of(session, job.id)[-1].event == "failed"


def test_a_full_queue_takes_no_clone(
    api: Api, app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(app.extensions, "queue_intake", Intake(0, 2))
    job = make_job(session)
    session.commit()
    assert api.post(f"/{job.id}/clone").status_code == 201

    answer = api.post(f"/{job.id}/clone")

    assert problem(answer) == (429, "queue_full")
    assert "Retry-After" in answer.headers
    assert [line.event for line in queries.events_of(session, job.id)] == ["enqueued", "cloned"]
