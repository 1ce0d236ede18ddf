"""Asking a worker to drain over HTTP; that it does is for ``tests/journeys``."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.api.worker_answers import Worker, Workers
from queueapp.jobs import control
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event, Status
from tests.api.conftest import body, pointers, problem
from tests.factories import make_job

WORKER = "worker:web-1:7:aaaaaa"


@pytest.fixture
def here(session: Session) -> None:
    control.record(session, Event.WORKER_SEEN, scope=WORKER, actor=WORKER, data={"slots": 1})
    data = {"slots": 1, "via": "api"}
    control.record(
        session, Event.WORKER_SEEN, scope="worker:token:far:k", actor="token:far", data=data
    )
    session.commit()


def test_workers_are_listed_and_shown_with_what_they_hold(
    client: FlaskClient, session: Session, here: None
) -> None:
    ids = [make_job(session, Status.RUNNING).id for _ in range(2)]
    session.execute(sa.update(Job).values(locked_by=WORKER))
    session.execute(sa.update(Job).where(Job.id == ids[0]).values(started_at=None))
    session.commit()

    found = body(client.get("/api/workers"))
    one = body(client.get(f"/api/workers/{WORKER}"))

    assert Workers.model_validate(found).cut is False
    items = {item["worker"]: item for item in found["items"]}
    assert set(items) == {WORKER, "token:far"}
    assert (items[WORKER]["held"], items[WORKER]["started"], items[WORKER]["slots"]) == (2, 1, 1)
    assert {**items[WORKER], "connections": None} == {**one, "connections": None}
    assert (items["token:far"]["is_elsewhere"], items["token:far"]["held"]) == (True, 0)
    assert items["token:far"]["lease_ends_at"] is None
    assert set(one) == set(Worker.model_fields)
    assert problem(client.get("/api/workers/no")) == (404, "worker_not_found")
    assert problem(client.get("/api/workers?x=1")) == (400, "bad_request")


def test_a_worker_is_asked_once(client: FlaskClient, session: Session, here: None) -> None:
    first, second = (
        client.post(f"/api/workers/{WORKER}/drain", json={"reason": reason}) for reason in "ab"
    )

    assert (first.status_code, body(first)) == (200, body(second))
    assert (body(first)["worker"], body(first)["by"], body(first)["reason"]) == (
        WORKER, "user:local", "a",
    )  # fmt: skip
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    [line] = session.scalars(sa.select(JobEvent).where(JobEvent.event == "drain_requested"))
    assert (line.scope, line.data["via"]) == (WORKER, "api")


def test_what_cannot_be_asked_is_refused(client: FlaskClient, here: None) -> None:
    why = {"reason": "r"}

    assert problem(client.post("/api/workers/no/drain", json=why)) == (404, "worker_not_found")
    assert problem(client.post("/api/workers/token:far/drain", json=why)) == (409, "cannot_drain")
    for sent, place in (({}, "/reason"), ({"reason": " "}, "/reason"), ({**why, "x": 1}, "/x")):
        answer = client.post(f"/api/workers/{WORKER}/drain", json=sent)
        assert (problem(answer), pointers(answer)) == ((422, "invalid_request"), [place])
