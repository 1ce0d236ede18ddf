"""Cancel and retry: allowed exactly where the table of moves says, once, with actor and reason."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Status
from tests.api.conftest import Api, body, pointers, problem
from tests.factories import make_job

CANCELLED = {Status.QUEUED: "cancelled", Status.HELD: "cancelled", Status.RUNNING: "running"}
RETRIED = {Status.FAILED: "queued", Status.CANCELLED: "queued"}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(("verb", "allowed"), [("cancel", CANCELLED), ("retry", RETRIED)])
def test_a_verb_is_taken_exactly_where_it_makes_sense(
    api: Api, session: Session, status: Status, verb: str, allowed: dict[Status, str]
) -> None:
    job = make_job(session, status)
    session.commit()

    answer = api.post(f"/{job.id}/{verb}")

    if status in allowed:
        assert (answer.status_code, body(answer)["status"]) == (200, allowed[status])
    else:
        assert problem(answer) == (409, "illegal_move")
        assert (body(answer)["job_id"], body(answer)["job_status"]) == (job.id, status)


def test_a_retried_job_has_all_its_attempts_again(api: Api, session: Session) -> None:
    job = make_job(session, Status.FAILED)
    session.commit()
    assert job.attempts == 1

    assert body(api.post(f"/{job.id}/retry"))["attempts"] == 0


def test_cancelling_a_running_job_asks_it_to_stop_once(api: Api, session: Session) -> None:
    job = make_job(session, Status.RUNNING)
    session.commit()

    first, second = api.post(f"/{job.id}/cancel"), api.post(f"/{job.id}/cancel")

    assert body(first)["cancel_requested_at"] is not None
    assert problem(second) == (409, "illegal_move")


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_actor_and_reason_stand_in_the_ledger(api: Api, session: Session, verb: str) -> None:
    job = make_job(session, Status.QUEUED if verb == "cancel" else Status.FAILED)
    session.commit()

    api.post(f"/{job.id}/{verb}", json={"reason": "because of ü"})

    last = body(api.get(f"/{job.id}/events"))["items"][-1]
    assert (last["actor"], last["reason"]) == ("user:local", "because of ü")
    assert last["data"]["via"] == "api"


@pytest.mark.parametrize(
    ("reason", "pointer"),
    [
        ({"reason": 5}, "/reason"),
        ({"reason": None}, "/reason"),
        ({"reason": "x" * 1001}, "/reason"),
        ({"reason": "\x00"}, "/reason"),
        ({"reason": "\ud800"}, "/reason"),
        ({"why": "?"}, "/why"),
        ([], ""),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_bad_reason_moves_nothing(api: Api, reason: object, pointer: str) -> None:
    job = api.make()

    answer = api.post(f"/{job['id']}/cancel", json=reason)

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer) == [pointer]
    assert body(api.get(f"/{job['id']}"))["status"] == "queued"


def test_a_body_of_another_type_moves_nothing(api: Api) -> None:
    job = api.make()

    assert problem(api.post(f"/{job['id']}/cancel", data={"reason": "form"}))[0] == 415
    assert api.post(f"/{job['id']}/cancel", json={}).status_code == 200


def test_get_moves_nothing(api: Api) -> None:
    job = api.make()

    for verb in ("cancel", "retry"):
        answer = api.get(f"/{job['id']}/{verb}")
        assert problem(answer) == (405, "method_not_allowed")
        assert "POST" in answer.headers["Allow"]


@pytest.mark.parametrize(("verb", "status"), [("cancel", Status.QUEUED), ("retry", Status.FAILED)])
def test_impatient_clicks_move_a_job_once(
    app: Flask, session: Session, verb: str, status: Status
) -> None:
    job = make_job(session, status)
    session.commit()
    before = session.scalar(sa.select(sa.func.count(JobEvent.id)))
    statuses, line = [], threading.Barrier(8)

    def click() -> None:
        client = app.test_client()
        line.wait()
        for _ in range(3):
            statuses.append(client.post(f"/api/jobs/{job.id}/{verb}").status_code)

    threads = [threading.Thread(target=click) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200] + [409] * 23
    assert session.scalar(sa.select(sa.func.count(JobEvent.id))) == (before or 0) + 1


@pytest.mark.postgresql("row locks")
def test_a_locked_row_makes_a_person_wait_two_seconds_at_most(
    api: Api, session: Session, engine: sa.Engine
) -> None:
    job = make_job(session)
    session.commit()
    with engine.begin() as other:
        other.execute(sa.select(Job.id).where(Job.id == job.id).with_for_update())

        assert problem(api.post(f"/{job.id}/cancel")) == (409, "job_busy")


# The history


def test_events_are_paged_oldest_first(api: Api) -> None:
    job = api.make()
    for _ in range(3):
        api.post(f"/{job['id']}/cancel")
        api.post(f"/{job['id']}/retry")

    first = body(api.get(f"/{job['id']}/events?limit=3"))
    rest = body(api.get(f"/{job['id']}/events?after={first['next']}"))

    names = [line["event"] for line in first["items"] + rest["items"]]
    assert names == ["enqueued", *["cancelled", "requeued"] * 3]
    assert rest["next"] is None
    assert first["items"][0]["created_at"].endswith("Z")


def test_the_history_outlives_the_job(api: Api, session: Session) -> None:
    job = api.make()
    session.execute(sa.delete(Job).where(Job.id == job["id"]))
    session.commit()

    assert problem(api.get(f"/{job['id']}")) == (404, "job_not_found")
    assert len(body(api.get(f"/{job['id']}/events"))["items"]) == 1
