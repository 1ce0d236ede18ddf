"""GET /api/errors: the causes of the page, for programs."""

from __future__ import annotations

from typing import Any

from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.api.causes import Cause, Causes
from queueapp.jobs.queries import failures
from tests.api.conftest import body, problem
from tests.console.test_causes import fail


def test_what_fails_is_listed_by_cause(
    client: FlaskClient, session: Session, monkeypatch: Any
) -> None:
    monkeypatch.setattr(failures.failure_window, "__kwdefaults__", {"limit": 3})
    [common] = {fail(session, f"no account {number}") for number in range(3)}
    rare = fail(session, "another", kind="demo.sleep", payload={"seconds": 1})
    fail(session, "no account 7", verb="retry", max_attempts=4)
    session.commit()

    found = body(client.get("/api/errors"))

    Causes.model_validate(found)
    assert [one["fingerprint"] for one in found["items"]] == [common, rare]
    first, second = found["items"]
    assert set(first) == set(Cause.model_fields)
    assert (first["error_class"], first["message"]) == ("KeyError", "no account 2")
    assert (first["failed"], first["waiting"], first["held"]) == (2, 1, 0)
    assert first["all_failed"] == {"count": 3, "more": False}
    assert (first["kinds"], second["kinds"]) == ({"demo.echo": 3}, {"demo.sleep": 1})
    assert first["first_seen_at"] <= first["last_seen_at"] <= found["as_of"]
    assert (found["failures"], found["failures_cut"], found["waiting_cut"]) == (3, True, False)
    assert found["more"] == 0


def test_causes_are_narrowed_to_those_of_a_kind(client: FlaskClient, session: Session) -> None:
    fail(session, "no account 1")
    rare = fail(session, "another", kind="demo.sleep", payload={"seconds": 1})
    session.commit()

    found = body(client.get("/api/errors?kind=demo.sleep"))

    assert [one["fingerprint"] for one in found["items"]] == [rare]
    assert body(client.get("/api/errors?kind=no.such"))["items"] == []
    assert problem(client.get("/api/errors?kinds=x")) == (400, "bad_request")


def test_nothing_fails(client: FlaskClient) -> None:
    found = body(client.get("/api/errors"))

    assert (found["items"], found["failures"], found["failures_from"]) == ([], 0, None)
