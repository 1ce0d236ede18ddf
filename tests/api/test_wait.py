"""A request that waits for its job's end: bounded, in few places, without a connection."""

from __future__ import annotations

from threading import BoundedSemaphore
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from queueapp.api import job_end
from queueapp.extensions import db
from queueapp.jobs import transitions
from tests.api.conftest import Api, body, problem


def test_the_answer_comes_when_the_job_is_final(
    api: Api, app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    def cancel_meanwhile(seconds: float) -> None:
        taken.append(db.engine.pool.checkedout())  # type: ignore[attr-defined]
        if len(taken) == 3:
            [job] = body(api.get())["items"]
            transitions.cancel(session, [job["id"]], actor="user:ana", reason=None)
            session.commit()

    monkeypatch.setattr(job_end, "pause", cancel_meanwhile)

    answer = api.post("?wait=20", json={"kind": "demo.echo"})

    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/api/jobs/{body(answer)['id']}"
    assert body(answer)["status"] == "cancelled"
    assert taken == [0, 0, 0]


def test_the_answer_comes_when_the_time_is_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = clock(monkeypatch)

    answer = api.post("?wait=20", json={"kind": "demo.echo"})

    assert (answer.status_code, body(answer)["status"]) == (201, "queued")
    assert sum(pauses) == pytest.approx(20)
    assert len(pauses) < 60


def test_a_job_that_has_ended_is_not_waited_for(
    api: Api, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = clock(monkeypatch)
    made = api.make(idempotency_key="once")
    transitions.cancel(session, [made["id"]], actor="user:ana", reason=None)
    session.commit()

    answer = api.post("?wait=20", json={"kind": "demo.echo", "idempotency_key": "once"})

    assert (answer.status_code, body(answer)["status"]) == (200, "cancelled")
    assert pauses == []


def test_no_more_wait_than_may_and_nothing_is_written_then(api: Api, app: Flask) -> None:
    places: BoundedSemaphore = app.extensions["queue_waiters"]
    assert places.acquire(blocking=False)
    try:
        answer = api.post("?wait=1", json={"kind": "demo.echo"})

        assert problem(answer) == (503, "too_many_waiters")
        assert int(answer.headers["Retry-After"]) > 0
        assert api.count() == 0
        assert api.post("?wait=0", json={"kind": "demo.echo"}).status_code == 201
    finally:
        places.release()


def test_the_place_is_given_back(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch)

    for given in ({"kind": "demo.echo"}, {"kind": "no.such.kind"}, {"kind": "demo.echo"}):
        assert api.post("?wait=1", json=given).status_code in (201, 422)


def test_a_database_that_goes_away_meanwhile_is_no_refusal(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job exists: a 503 would have the client create it again."""

    def gone(job_id: int) -> None:
        raise OperationalError("select", {}, Exception("gone"))

    clock(monkeypatch)
    monkeypatch.setattr(job_end, "_status", gone)

    answer = api.post("?wait=1", json={"kind": "demo.echo"})

    assert (answer.status_code, body(answer)["status"]) == (201, "queued")


@pytest.mark.parametrize("wait", ["21", "-1", "1.5", "", "soon"])
def test_a_wait_that_cannot_be_is_refused_before_anything_is_written(api: Api, wait: str) -> None:
    assert problem(api.post(f"?wait={wait}", json={"kind": "demo.echo"})) == (400, "bad_request")
    assert api.count() == 0


def test_an_unknown_parameter_is_refused(api: Api) -> None:
    assert problem(api.post("?wiat=1", json={"kind": "demo.echo"})) == (400, "bad_request")


def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes only in pauses; returns them."""
    pauses: list[float] = []
    monkeypatch.setattr(job_end, "pause", pauses.append)
    monkeypatch.setattr(job_end, "monotonic", lambda: sum(pauses))
    return pauses
