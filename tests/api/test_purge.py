"""Purge over HTTP: one job that is over, or all that match, by an admin, for good."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.api import operations as views
from queueapp.jobs import transitions
from queueapp.jobs.models import Job
from queueapp.jobs.operations import driver
from queueapp.jobs.status import FINAL, Status
from tests.api.conftest import Api, body, pointers, problem
from tests.api.test_operations import Operations, bulk
from tests.factories import make_job

__all__ = ["bulk"]

WHY = {"reason": "it held what it must not hold"}


def rows(session: Session) -> list[int]:
    session.rollback()
    return list(session.scalars(sa.select(Job.id).order_by(Job.id)))


@pytest.mark.parametrize("status", Status)
def test_one_job_goes_if_it_is_over(api: Api, session: Session, status: Status) -> None:
    job = make_job(session, status)
    session.commit()

    answer = api.post(f"/{job.id}/purge", json=WHY)

    if status not in FINAL:
        assert problem(answer) == (409, "illegal_move")
        assert (body(answer)["job_id"], body(answer)["job_status"]) == (job.id, status)
        assert rows(session) == [job.id]
        return
    assert answer.status_code == 200
    line = body(answer)
    assert (line["job_id"], line["event"], line["from_status"], line["to_status"]) == (
        job.id, "purged", status, None,
    )  # fmt: skip
    assert (line["actor"], line["reason"]) == ("user:local", WHY["reason"])
    assert line["data"]["via"] == "api"
    assert rows(session) == []


def test_what_is_left_is_the_history(api: Api, session: Session) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    before = body(api.get(f"/{job.id}/events"))["items"]

    last = body(api.post(f"/{job.id}/purge", json=WHY))

    assert problem(api.get(f"/{job.id}")) == (404, "job_not_found")
    assert problem(api.post(f"/{job.id}/purge", json=WHY)) == (404, "job_not_found")
    assert problem(api.post(f"/{job.id}/retry")) == (404, "job_not_found")
    assert body(api.get(f"/{job.id}/events"))["items"] == [*before, last]


@pytest.mark.parametrize("sent", [{}, {"reason": ""}, {"reason": " "}, {"reason": None}])
def test_without_a_reason_nothing_goes(api: Api, session: Session, sent: dict[str, Any]) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()

    answer = api.post(f"/{job.id}/purge", json=sent)

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer) == ["/reason"]
    assert rows(session) == [job.id]


def test_its_key_makes_a_new_job(api: Api) -> None:
    sent = {"kind": "demo.echo", "payload": {"message": "hello"}, "idempotency_key": "k"}
    old = body(api.client.post("/api/jobs", json=sent))
    assert body(api.client.post("/api/jobs", json=sent))["id"] == old["id"]
    api.post(f"/{old['id']}/cancel")

    line = body(api.post(f"/{old['id']}/purge", json=WHY))
    new = api.client.post("/api/jobs", json=sent)

    assert line["data"]["idempotency_key"] == "k"
    assert new.status_code == 201
    assert body(new)["id"] != old["id"]


def test_many_go_in_batches_which_stop_and_tell_what_is_left(
    bulk: Operations, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BATCH", 2)
    monkeypatch.setattr(views, "MOST_BATCHES", 1)
    over, waiting = bulk.jobs(5, Status.SUCCEEDED), bulk.jobs(2, Status.QUEUED)

    made = bulk.plan("purge", {"kind": "demo.echo"})

    assert made["planned"] == {"count": 5, "more": False}
    assert made["others"] == {"queued": {"count": 2, "more": False}}
    assert rows(session) == [*over, *waiting]
    assert bulk.apply(made, 202)["left"]["count"] == 3
    # The answer was lost, so it is asked for again: what comes next is what is left.
    assert bulk.apply(made, 202)["moved"] == 4
    assert rows(session) == [*over[4:], *waiting]
    stopped = bulk.stop(made)
    assert (stopped["state"], stopped["moved"], stopped["left"]["count"]) == ("stopped", 4, 1)
    assert bulk.apply(bulk.plan("purge", {"kind": "demo.echo"}))["moved"] == 1
    assert rows(session) == waiting
    assert bulk.moved(made) == over[:4]


def test_what_has_moved_since_the_plan_stays(bulk: Operations, session: Session) -> None:
    same, retried, ended_again = bulk.jobs(3)
    made = bulk.plan("purge")
    transitions.requeue(session, [retried, ended_again], actor="user:bob")
    transitions.cancel(session, [ended_again], actor="user:bob")
    session.commit()
    late = bulk.jobs(1)

    done = bulk.apply(made)

    assert (done["moved"], done["skipped"]) == (1, 2)
    assert bulk.moved(made) == [same]
    assert rows(session) == [retried, ended_again, *late]


def test_there_is_no_undo_of_it(bulk: Operations, session: Session) -> None:
    bulk.jobs(2)
    done = bulk.apply(bulk.plan("purge"))

    answer = bulk.client.post(f"/api/operations/{done['id']}/undo", json=WHY)

    assert problem(answer) == (409, "not_undoable")
    assert "there is no undo" in body(answer)["detail"]
    assert all(number["count"] == 0 for number in done["now"].values())
    assert rows(session) == []


def test_a_plan_for_unfinished_jobs_alone_is_refused(bulk: Operations) -> None:
    asked = {"verb": "purge", "filter": {"status": ["queued", "running"]}, **WHY}

    answer = bulk.client.post("/api/operations", json=asked)

    assert pointers(answer) == ["/filter/status"]
    assert "succeeded or failed or cancelled" in answer.text
