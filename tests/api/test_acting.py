"""Hold, unhold, reschedule, run now, release: each once, with actor and reason in the ledger."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp.jobs import audit, transitions
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Status
from tests.api.conftest import Api, body, pointers, problem
from tests.factories import claim_one, make_job

LATER = "2030-01-31T08:00:00.000000Z"
SENT: dict[str, dict[str, Any]] = {
    "hold": {"reason": "odd"},
    "unhold": {},
    "reschedule": {"available_at": LATER},
    "run-now": {},
    "release": {"claimed_at": LATER},
}
ALLOWED = {
    "hold": {Status.QUEUED: "held"},
    "unhold": {Status.HELD: "queued"},
    "reschedule": {Status.QUEUED: "queued", Status.HELD: "held"},
    "run-now": {Status.QUEUED: "queued"},
    "release": {Status.RUNNING: "queued"},
}


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def shown(api: Api, job_id: int) -> dict[str, Any]:
    return body(api.get(f"/{job_id}"))


def last(api: Api, job_id: int) -> dict[str, Any]:
    line: dict[str, Any] = body(api.get(f"/{job_id}/events"))["items"][-1]
    return line


def sent(api: Api, verb: str, job: Job) -> dict[str, Any]:
    seen = shown(api, job.id)["claimed_at"]
    return {"claimed_at": seen} if verb == "release" and seen else SENT[verb]


def assert_clean(session: Session) -> None:
    *_, (_, report) = audit.check(session)
    assert report.clean, report.offenders


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("verb", SENT)
def test_a_verb_is_taken_exactly_where_it_makes_sense(
    api: Api, session: Session, status: Status, verb: str
) -> None:
    job = make_job(session, status)
    session.commit()
    lines = len(body(api.get(f"/{job.id}/events"))["items"])

    answer = api.post(f"/{job.id}/{verb}", json=sent(api, verb, job))

    if status in ALLOWED[verb]:
        assert (answer.status_code, body(answer)["status"]) == (200, ALLOWED[verb][status])
        return
    assert problem(answer) == (409, "illegal_move")
    assert (body(answer)["job_id"], body(answer)["job_status"]) == (job.id, status)
    assert len(body(api.get(f"/{job.id}/events"))["items"]) == lines


@pytest.mark.parametrize("verb", SENT)
def test_actor_and_reason_stand_in_the_ledger(api: Api, session: Session, verb: str) -> None:
    job = make_job(session, next(iter(ALLOWED[verb])), available_at=in_an_hour())
    session.commit()

    api.post(f"/{job.id}/{verb}", json={**sent(api, verb, job), "reason": "because of ü"})

    line = last(api, job.id)
    assert (line["actor"], line["reason"]) == ("user:local", "because of ü")
    assert line["data"]["via"] == "api"
    session.rollback()
    assert_clean(session)


@pytest.mark.parametrize("verb", SENT)
def test_impatient_clicks_change_a_job_once(
    app: Flask, api: Api, session: Session, verb: str
) -> None:
    job = make_job(session, next(iter(ALLOWED[verb])), available_at=in_an_hour())
    session.commit()
    json = {"delay": 60} if verb == "reschedule" else sent(api, verb, job)
    before = session.scalar(sa.select(sa.func.count(JobEvent.id)))
    answers, line = [], threading.Barrier(4)

    def click() -> None:
        client = app.test_client()
        line.wait()
        for _ in range(2):
            answer = client.post(f"/api/jobs/{job.id}/{verb}", json=json)
            said = answer.headers.get("Idempotent-Replayed")
            answers.append((answer.status_code, said))

    threads = [threading.Thread(target=click) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    again = (200, "true") if verb in ("reschedule", "run-now") else (409, None)
    assert sorted(answers, key=str) == sorted([(200, None)] + [again] * 7, key=str)
    assert session.scalar(sa.select(sa.func.count(JobEvent.id))) == (before or 0) + 1


@pytest.mark.parametrize(
    ("verb", "json", "pointer"),
    [
        ("hold", {"reason": 5}, "/reason"),
        ("hold", {}, "/reason"),
        ("hold", {"reason": ""}, "/reason"),
        ("hold", {"reason": " \t"}, "/reason"),
        ("hold", {"reason": None}, "/reason"),
        ("hold", {"reason": "odd", "until": LATER}, "/until"),
        ("unhold", {"reason": "x" * 1001}, "/reason"),
        ("run-now", {"priority": 1}, "/priority"),
        ("reschedule", {}, ""),
        ("reschedule", {"reason": "only"}, ""),
        ("reschedule", {"delay": 5, "available_at": LATER}, "/delay"),
        ("reschedule", {"delay": -1}, "/delay"),
        ("reschedule", {"delay": 10**9}, "/delay"),
        ("reschedule", {"delay": "5"}, "/delay"),
        ("reschedule", {"delay": None}, "/delay"),
        ("reschedule", {"priority": 2**15}, "/priority"),
        ("reschedule", {"priority": True}, "/priority"),
        ("reschedule", {"available_at": "tomorrow"}, "/available_at"),
        ("reschedule", {"available_at": "2030-02-30T08:00:00Z"}, "/available_at"),
        ("reschedule", {"available_at": "2030-01-31T08:00:00"}, "/available_at"),
        ("reschedule", {"available_at": "9999-01-31T08:00:00Z"}, "/available_at"),
        ("reschedule", {"available_at": 5}, "/available_at"),
        ("reschedule", {"available_at": None}, "/available_at"),
        ("release", {}, "/claimed_at"),
        ("release", {"claimed_at": None}, "/claimed_at"),
        ("release", {"claimed_at": "0001-01-01T00:00:00+23:59"}, "/claimed_at"),
        ("release", [], ""),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_cannot_be_read_moves_nothing(api: Api, verb: str, json: object, pointer: str) -> None:
    job = api.make(delay=3600)

    answer = api.post(f"/{job['id']}/{verb}", json=json)

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer) == [pointer]
    assert shown(api, job["id"]) == job


@pytest.mark.parametrize("verb", SENT)
def test_no_job_no_move(api: Api, verb: str) -> None:
    assert problem(api.post(f"/7/{verb}", json=SENT[verb])) == (404, "job_not_found")


def test_hold_keeps_the_place_in_the_line(api: Api) -> None:
    job = api.make(priority=3, delay=60)

    held = body(api.post(f"/{job['id']}/hold", json={"reason": "odd"}))
    back = body(api.post(f"/{job['id']}/unhold"))

    assert (held["status"], held["held_for"]) == ("held", "job")
    assert back == job


def test_a_job_that_is_held_for_its_kind_stays_until_the_kind_goes_on(
    api: Api, session: Session
) -> None:
    job = make_job(session)
    transitions.hold(session, [job.id], actor="housekeeping:1", held_for="kind")
    session.commit()

    answer = api.post(f"/{job.id}/unhold")

    assert problem(answer) == (409, "illegal_move")
    assert "held for its kind" in body(answer)["detail"]


def test_a_job_is_rescheduled_to_a_moment_a_delay_or_a_priority(api: Api) -> None:
    job = api.make(delay=3600, priority=2)
    path = f"/{job['id']}/reschedule"

    there = body(api.post(path, json={"available_at": "2030-01-31T09:00:00+01:00"}))
    assert (there["available_at"], there["priority"]) == (LATER, 2)
    above = body(api.post(path, json={"priority": 9.0}))
    assert (above["available_at"], above["priority"]) == (LATER, 9)
    soon = body(api.post(path, json={"delay": 90, "priority": 9}))
    ahead = datetime.fromisoformat(soon["available_at"]) - datetime.now(UTC)
    assert timedelta(seconds=30) < ahead <= timedelta(seconds=90)
    assert last(api, job["id"])["data"]["was"]["priority"] == 9


def test_a_reschedule_to_where_a_job_stands_says_so_and_writes_nothing(api: Api) -> None:
    job = api.make(available_at=LATER, priority=2)
    for same in ({"available_at": LATER}, {"priority": 2}, {"available_at": LATER, "priority": 2}):
        answer = api.post(f"/{job['id']}/reschedule", json=same)

        assert (answer.status_code, answer.headers["Idempotent-Replayed"]) == (200, "true")
        assert body(answer) == job
    assert last(api, job["id"])["event"] == "enqueued"


@pytest.mark.parametrize(("verb", "json"), [("run-now", {}), ("reschedule", {"delay": 0})])
def test_what_is_due_already_keeps_its_place(
    api: Api, session: Session, verb: str, json: dict[str, Any]
) -> None:
    job = make_job(session, available_at=datetime.now(UTC) - timedelta(hours=1))
    session.commit()
    before = shown(api, job.id)

    answer = api.post(f"/{job.id}/{verb}", json=json)

    assert answer.headers["Idempotent-Replayed"] == "true"
    assert body(answer) == before


def test_run_now_makes_a_job_due_and_leaves_its_priority(api: Api) -> None:
    job = api.make(delay=3600, priority=-7)

    answer = body(api.post(f"/{job['id']}/run-now"))

    assert datetime.fromisoformat(answer["available_at"]) <= datetime.now(UTC) + timedelta(
        seconds=5
    )
    assert answer["priority"] == -7
    assert last(api, job["id"])["data"]["was"]["available_at"] is not None


def test_run_now_is_refused_while_a_job_is_held(api: Api) -> None:
    job = api.make(delay=3600)
    api.post(f"/{job['id']}/hold", json={"reason": "odd"})

    answer = api.post(f"/{job['id']}/run-now")

    assert problem(answer) == (409, "illegal_move")
    assert "run now needs one that is queued" in body(answer)["detail"]


def test_a_job_is_released_from_the_holder_that_was_seen_and_from_no_other(
    api: Api, session: Session
) -> None:
    job = make_job(session, Status.RUNNING)
    session.commit()
    seen = shown(api, job.id)["claimed_at"]
    assert api.post(f"/{job.id}/release", json={"claimed_at": seen}).status_code == 200
    claim_one(session, job.id)
    session.commit()

    answer = api.post(f"/{job.id}/release", json={"claimed_at": seen})

    assert problem(answer) == (409, "illegal_move")
    assert "another holder" in body(answer)["detail"]
    assert shown(api, job.id)["status"] == "running"


def test_a_release_uses_the_attempt_and_the_last_one_ends_the_job(
    api: Api, session: Session
) -> None:
    job = make_job(session, Status.RUNNING, max_attempts=1)
    session.commit()

    answer = api.post(f"/{job.id}/release", json=sent(api, "release", job))

    assert (body(answer)["status"], body(answer)["attempts"]) == ("failed", 1)
    assert last(api, job.id)["reason"] == "released_on_last_attempt"
