"""What a worker says of an outcome is kept, whatever its texts are like: refused, it would be lost.

As with handlers of our own: texts are cut, what cannot be stored is made visible or left out.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from queueapp.jobs.failure import MESSAGE_LIMIT, NAME_LIMIT, TRACEBACK_LIMIT
from queueapp.jobs.models import Job, JobEvent
from tests.api.conftest import Api, body


@pytest.fixture
def lease(api: Api, client: FlaskClient) -> dict[str, Any]:
    api.make()
    answer = client.post("/api/leases", json={"kinds": ["demo.echo"]})
    [leased] = body(answer)["items"]
    return {"id": leased["id"], "token": leased["token"]}


def settle(client: FlaskClient, item: dict[str, Any]) -> str:
    # Written as clients do: the parser of the tests' client would refuse some of it itself.
    raw = json.dumps({"items": [item]})
    answer = client.post("/api/leases/settle", data=raw, content_type="application/json")
    assert answer.status_code == 200, answer.text
    [told] = body(answer)["items"]
    assert told["outcome"] == "accepted"
    return str(told["status"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\x00b", "a\\x00b"), ("a\ud800b", "a\\ud800b"), ("", ""), ("é🔑", "é🔑")],
    ids=ascii,
)
def test_a_failure_is_kept_with_what_cannot_be_stored_made_visible(
    client: FlaskClient, session: Session, lease: dict[str, Any], text: str, shown: str
) -> None:
    told = {"error_class": text, "error_message": text, "traceback": text}

    assert settle(client, {**lease, "verb": "fail", "permanent": True, **told}) == "failed"

    job = session.get_one(Job, lease["id"])
    assert (job.error_class, job.error_message) == (shown or "Error", shown)
    assert _failed(session).data["traceback"] == shown


def test_the_longest_texts_are_cut_in_the_middle(
    client: FlaskClient, session: Session, lease: dict[str, Any]
) -> None:
    text = "begin" + "x" * 300_000 + "end"
    told = {"error_class": text, "error_message": text, "traceback": text}

    settle(client, {**lease, "verb": "fail", "permanent": True, **told})

    job = session.get_one(Job, lease["id"])
    kept = (
        (job.error_class, NAME_LIMIT),
        (job.error_message, MESSAGE_LIMIT),
        (_failed(session).data["traceback"], TRACEBACK_LIMIT),
    )
    for shown, limit in kept:
        assert shown is not None
        assert shown.startswith("begin")
        assert shown.endswith("end")
        assert "characters cut" in shown
        assert limit < len(shown) < limit + 50


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        (r'{"a\u0000": ["\ud800"]}', {"a\\x00": ["\\ud800"]}),
        ("NaN", {"$omitted": "not JSON: float (ValueError)"}),
        ('{"a": [1e400]}', {"$omitted": "not JSON: dict (ValueError)"}),
        ("[" * 100 + "]" * 100, json.loads("[" * 100 + "]" * 100)),
        ("[" * 201 + "]" * 201, {"$omitted": "not JSON: list (RecursionError)"}),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_success_is_kept_whatever_its_result_is_like(
    client: FlaskClient, session: Session, lease: dict[str, Any], raw: str, stored: Any
) -> None:
    item = {**lease, "verb": "succeed", "result": "here"}
    sent = json.dumps({"items": [item]}).replace('"here"', raw)

    answer = client.post("/api/leases/settle", data=sent, content_type="application/json")

    assert body(answer)["items"][0]["status"] == "succeeded"
    assert session.get_one(Job, lease["id"]).result == stored


def test_a_note_of_progress_is_cut_and_made_visible(
    client: FlaskClient, session: Session, lease: dict[str, Any]
) -> None:
    item = {**lease, "percent": 5, "note": "\x00" + "x" * 1000}

    answer = client.post("/api/leases/progress", json={"items": [item]})

    assert body(answer)["items"][0]["outcome"] == "accepted"
    assert session.get_one(Job, lease["id"]).progress_note == "\\x00" + "x" * 196


def _failed(session: Session) -> JobEvent:
    return session.scalars(sa.select(JobEvent).where(JobEvent.event == "failed")).one()


@pytest.mark.parametrize(
    "result",
    ["9" * 5_000, '{"n": [' + "9" * 5_000 + "]}", '"' + "x" * 1_200_000 + '"'],
    ids=["a number", "a number within", "a text larger than other bodies"],
)
def test_a_result_that_nobody_could_read_is_left_out_and_the_job_has_succeeded(
    client: FlaskClient, session: Session, lease: dict[str, Any], result: str
) -> None:
    item = json.dumps({**lease, "verb": "succeed"})[:-1] + f', "result": {result}}}'

    answer = client.post(
        "/api/leases/settle", data=f'{{"items": [{item}]}}', content_type="application/json"
    )

    assert answer.status_code == 200, answer.text
    job = session.get_one(Job, lease["id"])
    assert (job.status, list(job.result)) == ("succeeded", ["$omitted"])
