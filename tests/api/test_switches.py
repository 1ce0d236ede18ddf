"""Pausing, resuming, holding and unholding over HTTP."""

from __future__ import annotations

from datetime import datetime

from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs import control
from queueapp.jobs.status import Status
from tests.api.conftest import body, pointers, problem
from tests.factories import make_job
from tests.scenes import Scene


def test_what_stands_still_is_told_until_it_is_lifted(
    client: FlaskClient, session: Session
) -> None:
    paused = body(client.post("/api/queue/pause", json={"reason": "migration", "duration": 600}))
    held = body(client.post("/api/kinds/demo.echo/hold", json={"reason": "down"}))

    assert (paused["scope"], paused["stopped"], paused["by"]) == ("queue", True, "user:local")
    until, since = (datetime.fromisoformat(paused[name]) for name in ("until", "since"))
    assert 595 < (until - since).total_seconds() < 605
    assert (held["scope"], held["until"]) == ("kind:demo.echo", None)
    assert (held.pop("known"), held.pop("meant")) == (True, None)
    assert (held.pop("replaced"), paused.pop("replaced")) == (None, None)
    assert body(client.get("/api/switches"))["items"] == [held, paused]
    assert control.in_force(session).held_kinds == ("demo.echo",)

    lifted = [client.post("/api/kinds/demo.echo/unhold", json={"spread": 60}) for _ in range(2)]
    resumed = [client.post("/api/queue/resume") for _ in range(2)]

    for first, second in (lifted, resumed):
        assert (first.status_code, second.status_code) == (200, 200)
        assert "Idempotent-Replayed" not in first.headers
        assert second.headers["Idempotent-Replayed"] == "true"
        assert body(first) == body(second)
        assert body(first)["stopped"] is False
    assert body(lifted[0])["spread"] == 60
    assert body(client.get("/api/switches"))["items"] == []


def test_what_takes_the_place_of_another_stop_says_so(client: FlaskClient) -> None:
    for act in ("/api/queue/pause", "/api/kinds/demo.echo/hold"):
        first = body(client.post(act, json={"reason": "until I say so"}))
        second = body(client.post(act, json={"reason": "a moment", "duration": 3}))

        assert second["reason"] == "a moment"
        assert second["replaced"] == {name: first[name] for name in second["replaced"]}
        assert second["replaced"]["reason"] == "until I say so"


def test_what_makes_no_sense_is_refused(client: FlaskClient, session: Session) -> None:
    for sent, place in (
        ({}, "/reason"),
        ({"reason": " "}, "/reason"),
        ({"reason": "x", "duration": 0}, "/duration"),
        ({"reason": "x", "spread": 1}, "/spread"),
    ):
        answer = client.post("/api/queue/pause", json=sent)
        assert problem(answer) == (422, "invalid_request")
        assert pointers(answer) == [place]
    refused = client.post("/api/kinds/No/hold", json={"reason": "x"})
    assert problem(refused) == (404, "kind_not_found")
    nothing = client.post("/api/queue/resume")
    assert (nothing.headers["Idempotent-Replayed"], body(nothing)["event"]) == ("true", None)
    assert control.in_force(session).latest == {}


def test_a_kind_that_nothing_knows_is_held_and_said_to_be_unknown(
    client: FlaskClient, session: Session
) -> None:
    def hold(kind: str) -> tuple[bool, bool | None, str | None]:
        told = body(client.post(f"/api/kinds/{kind}/hold", json={"reason": "x"}))
        return told["stopped"], told["known"], told["meant"]

    assert hold("demo.ecko") == (True, False, "demo.echo")
    assert hold("nosuch.kind") == (True, False, None)
    # That it is on hold tells nothing of it.
    assert hold("nosuch.kind") == (True, False, None)

    make_job(session, Status.SUCCEEDED, kind="nosuch.kind")
    session.commit()
    assert hold("nosuch.kind") == (True, True, None)

    Scene(session).worker(kinds=["shop.mail"])
    assert hold("shop.mail") == (True, True, None)
    assert hold("shop.mails") == (True, False, "shop.mail")
