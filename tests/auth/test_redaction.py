"""What only admins see of payloads and results, wherever jobs are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.config.readers import redactions
from queueapp.jobs.queries import bodies_of
from queueapp.jobs.status import Status
from queueapp.redaction import MARK, Redaction
from tests.applications import application
from tests.auth.conftest import bearer
from tests.factories import make_job

PAYLOAD = {
    "to": "ann@example.com",
    "API-Key": "hunter1",
    "apikey": "hunter5",
    "deep": [{"Password": {"old": "hunter2", "new": ["hunter3", {"x": "}"}]}, "kept": 12345678901}],
    "card": {"number": "hunter4", "holder": "Ann"},
    "number": 7,
    "quote": 'a "password": "no field"',
}
RULES = "*:password *:api_key mail.send:card.number pay:to"
SECRETS = ("hunter1", "hunter2", "hunter3", "hunter4", "hunter5")


@pytest.fixture
def guarded(database_url: str, tokens: str) -> Iterator[Flask]:
    settings = {"QUEUE_TOKENS": tokens, "QUEUE_REDACT": RULES, "QUEUE_ACCEPT_UNKNOWN_KINDS": "1"}
    with application(database_url, **settings) as app:
        yield app


@pytest.fixture
def job_id(session: Session) -> int:
    made = make_job(
        session,
        Status.FAILED,
        kind="mail.send",
        payload=PAYLOAD,
        result=PAYLOAD,
        error_class="ValueError",
        error_fingerprint="00000000000000aa",
        producer="the-producer",
    )
    session.commit()
    return made.id


def places(job_id: int) -> list[str]:
    """Everywhere that a payload or a result can be read."""
    fields = "fields=payload,result"
    return [
        f"/api/jobs/{job_id}",
        f"/api/jobs?{fields}&limit=10",
        f"/api/jobs.ndjson?{fields}",
        f"/api/jobs.csv?{fields}",
        f"/jobs/{job_id}",
        "/errors/00000000000000aa",
    ]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_only_reads_finds_a_mark_everywhere(
    caller: FlaskClient, job_id: int, role: str
) -> None:
    for path in places(job_id):
        answer = caller.get(path, headers=bearer(role))
        text = answer.text
        answer.close()
        assert answer.status_code == 200, path
        assert not [secret for secret in SECRETS if secret in text], path
        assert MARK in text or "\\u2022" in text, path
        assert "ann@example.com" in text or path.startswith("/errors"), path


@pytest.mark.parametrize("role", ["admin", "producer"])
def test_admins_and_who_made_it_see_it_whole(caller: FlaskClient, job_id: int, role: str) -> None:
    answer = caller.get(f"/api/jobs/{job_id}", headers=bearer(role))

    assert answer.json is not None
    assert (answer.json["payload"], answer.json["result"]) == (PAYLOAD, PAYLOAD)


HIDDEN_FIELDS = ("apikey=hunter5", "API-Key=hunter1", "card.number=hunter4", "a.password.old=x")


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_what_is_hidden_cannot_be_asked_for(caller: FlaskClient, job_id: int, role: str) -> None:
    """Else the number of matches would tell the value, one guess at a time."""
    for field in HIDDEN_FIELDS:
        for query in (f"payload.{field}", f"kind=mail.send&payload={field}"):
            for place in ("/api/jobs", "/api/jobs.ndjson", "/api/jobs.csv"):
                answer = caller.get(f"{place}?{query}", headers=bearer(role))
                assert answer.status_code == 403, place
        page = caller.get(f"/jobs?payload.{field}", headers=bearer(role)).text
        assert "is hidden, so it cannot be asked for" in page
        assert f'id="job-{job_id}"' not in page
        assert caller.get(f"/jobs.csv?payload.{field}", headers=bearer(role)).status_code == 400


@pytest.mark.parametrize("role", ["operator", "admin"])
def test_a_plan_keeps_nothing_that_is_hidden(
    caller: FlaskClient, session: Session, job_id: int, role: str
) -> None:
    """The ledger keeps its filter for all to read."""
    body = {"verb": "retry", "filter": {"payload": {"apikey": "hunter5"}}, "reason": "because"}
    form = {"verb": "retry", "reason": "because", "payload.apikey": "hunter5", "status": "failed"}

    assert caller.post("/api/operations", json=body, headers=bearer(role)).status_code == 403
    assert caller.post("/operations", data=form, headers=bearer(role)).status_code == 400
    asked = caller.get("/operations/new?payload.apikey=hunter5", headers=bearer(role)).text
    assert "a plan is kept for all to read" in asked
    plans = caller.get("/api/operations", headers=bearer("viewer")).json
    assert plans is not None
    assert plans["items"] == []
    body["filter"] = {"payload": {"quote": PAYLOAD["quote"]}}
    made = caller.post("/api/operations", json=body, headers=bearer(role))
    assert made.json is not None
    assert (made.status_code, made.json["planned"]["count"]) == (201, 1)
    assert made.json["filter"]["payload"] == {"quote": PAYLOAD["quote"]}


def test_who_sees_it_may_ask_for_it(caller: FlaskClient, job_id: int) -> None:
    for role, query in (
        ("admin", "payload.apikey=hunter5"),
        ("producer", "payload.apikey=hunter5"),
        ("viewer", "payload.number=7"),
        ("viewer", "kind=mail.send&payload.to=ann@example.com"),
    ):
        answer = caller.get(f"/api/jobs?{query}", headers=bearer(role))
        assert answer.json is not None
        assert [job["id"] for job in answer.json["items"]] == [job_id], query
    # Of other kinds it may be hidden, so it is asked for by kind.
    assert caller.get("/api/jobs?payload.to=x", headers=bearer("viewer")).status_code == 403
    assert "job-" in caller.get("/jobs?payload.apikey=hunter5", headers=bearer("admin")).text


def test_a_move_answers_with_marks_as_well(caller: FlaskClient, job_id: int) -> None:
    answer = caller.post(f"/api/jobs/{job_id}/retry", headers=bearer("operator"))

    assert answer.status_code == 200
    assert not [secret for secret in SECRETS if secret in answer.text]


def test_a_rule_is_for_its_kind_and_a_path_begins_at_the_root() -> None:
    hidden = Redaction(redactions(RULES))

    mail = hidden.of("mail.send").of_value(PAYLOAD)
    assert mail["card"] == {"number": MARK, "holder": "Ann"}
    assert (mail["number"], mail["to"]) == (7, "ann@example.com")
    assert mail["deep"] == [{"Password": MARK, "kept": 12345678901}]
    assert hidden.of("pay").of_value(PAYLOAD)["to"] == MARK
    assert hidden.of("pay").of_value(PAYLOAD)["card"]["number"] == "hunter4"
    assert Redaction(redactions("none:none")).of("mail.send").of_value(PAYLOAD) == PAYLOAD


def test_the_text_of_a_page_is_masked_as_the_value_is(session: Session, job_id: int) -> None:
    text = bodies_of(session, job_id).payload
    assert text is not None
    hidden = Redaction(redactions(RULES)).of("mail.send")

    shown = hidden.of_text(text.text)

    assert json.loads(shown) == hidden.of_value(PAYLOAD)
    more = hidden.of_text(json.dumps({"Password": {"a": 1}, "kept": [2]}, indent=4))
    assert json.loads(more) == {"Password": MARK, "kept": [2]}
    # Of a beginning, wherever it is cut.
    for end in range(0, len(text.text), 7):
        assert not [secret for secret in SECRETS if secret in hidden.of_text(text.text[:end])]


@pytest.mark.parametrize("text", ["password", "mail.send:", "Mail Send:to", "a:b..c", ":x"])
def test_a_rule_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected entries such as"):
        redactions(text)
