"""Asking a worker to drain over HTTP; that it does is for ``tests/journeys``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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
PAST = datetime.now(UTC) - timedelta(minutes=5)


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


def test_what_a_dead_worker_holds_is_released_by_the_claims_that_were_seen(
    client: FlaskClient, session: Session, here: None
) -> None:
    ids = [make_job(session, Status.RUNNING).id for _ in range(3)]
    spent = make_job(session, Status.RUNNING, attempts=5).id
    held = sa.update(Job).where(Job.status == "running")
    session.execute(held.values(locked_by="worker:gone:1:bb"))
    session.execute(sa.update(Job).where(Job.id.in_((*ids, spent))).values(lease_expires_at=PAST))
    session.commit()
    listed = body(client.get("/api/jobs?worker=worker:gone:1:bb"))["items"]
    claims = [{"job_id": one["id"], "claimed_at": one["claimed_at"]} for one in listed]
    # Somebody has claimed one of them since.
    newer = sa.update(Job).where(Job.id == ids[0])
    session.execute(newer.values(claimed_at=sa.text("claimed_at + interval '1 second'")))
    session.commit()

    asked = {"claims": claims, "reason": "it burnt"}
    answer = client.post("/api/workers/worker:gone:1:bb/release", json=asked)

    assert body(answer) == {"worker": "worker:gone:1:bb", "released": [*ids[1:], spent], "left": 1}
    session.rollback()
    found = {one.id: one.status for one in session.execute(sa.select(Job.id, Job.status))}
    assert found == {ids[0]: "running", ids[1]: "queued", ids[2]: "queued", spent: "failed"}
    line = session.scalars(sa.select(JobEvent).where(JobEvent.event == "released")).first()
    assert line is not None
    assert (line.actor, line.reason, line.data["via"]) == ("user:local", "it burnt", "api")


@pytest.mark.postgresql("connections")
def test_a_live_worker_keeps_what_it_holds_unless_somebody_knows_that_it_lives(
    client: FlaskClient, session: Session
) -> None:
    """It leases over HTTP, so no connection is missed."""
    data = {"slots": 1, "via": "api", "lease_s": 60}
    control.record(
        session, Event.WORKER_SEEN, scope="worker:token:far:k", actor="token:far", data=data
    )
    job = make_job(session, Status.RUNNING)
    session.execute(sa.update(Job).values(locked_by="token:far"))
    session.commit()
    claimed_at = body(client.get(f"/api/jobs/{job.id}"))["claimed_at"]
    claims = [{"job_id": job.id, "claimed_at": claimed_at}]
    address = "/api/workers/token:far/release"

    assert problem(client.post(address, json={"claims": claims})) == (409, "worker_is_live")
    session.rollback()
    assert session.scalar(sa.select(Job.status)) == "running"
    answer = client.post(address, json={"claims": claims, "alive": True})
    assert body(answer)["released"] == [job.id]
    # It is not there any more, and holds nothing.
    assert body(client.post(address, json={"claims": claims, "alive": True}))["left"] == 1
    assert problem(client.post("/api/workers/no/release", json={"claims": claims})) == (
        404, "worker_not_found",
    )  # fmt: skip
    for claimed in ([], [{"job_id": 0, "claimed_at": claimed_at}], [{"job_id": job.id}]):
        refused = client.post(address, json={"claims": claimed})
        assert problem(refused) == (422, "invalid_request")
        assert pointers(refused)[0].startswith("/claims")


def test_what_cannot_be_asked_is_refused(client: FlaskClient, here: None) -> None:
    why = {"reason": "r"}

    assert problem(client.post("/api/workers/no/drain", json=why)) == (404, "worker_not_found")
    assert problem(client.post("/api/workers/token:far/drain", json=why)) == (409, "cannot_drain")
    for sent, place in (({}, "/reason"), ({"reason": " "}, "/reason"), ({**why, "x": 1}, "/x")):
        answer = client.post(f"/api/workers/{WORKER}/drain", json=sent)
        assert (problem(answer), pointers(answer)) == ((422, "invalid_request"), [place])
