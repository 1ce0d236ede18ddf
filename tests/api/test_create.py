"""POST /api/jobs: what is sent is what is stored, and a key makes a request safe to repeat."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp.jobs.models import Job, JobEvent
from tests.api.conftest import Api, body, pointers, problem


def test_a_job_is_created_with_its_place(api: Api) -> None:
    answer = api.post(json={"kind": "demo.echo", "payload": {"message": "hello"}})

    job = body(answer)
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/api/jobs/{job['id']}"
    assert body(api.get(f"/{job['id']}")) == job
    assert (job["status"], job["payload"], job["attempts"]) == ("queued", {"message": "hello"}, 0)


def test_every_field_arrives(api: Api, session: Session) -> None:
    job = api.make(
        payload={"message": [1, 2.5, None, True, "ü"]},
        priority=7,
        available_at="2030-01-31T08:00:00+02:00",
        max_attempts=3,
        timeout=90,
        idempotency_key="k",
    )

    row = session.get_one(Job, job["id"])
    assert row.payload == {"message": [1, 2.5, None, True, "ü"]}
    assert (row.priority, row.max_attempts, row.timeout_s) == (7, 3, 90)
    assert row.available_at == datetime(2030, 1, 31, 6, tzinfo=UTC)
    assert (row.idempotency_key, row.producer) == ("k", "user:local")
    assert job["available_at"] == "2030-01-31T06:00:00.000000Z"
    assert job["timeout"] == 90


def test_a_delay_counts_from_now(api: Api) -> None:
    job = api.make(delay=3600)

    due, made = (datetime.fromisoformat(job[name]) for name in ("available_at", "created_at"))
    assert due - made == timedelta(hours=1)


def test_the_handlers_defaults_apply_where_nothing_was_sent(api: Api) -> None:
    job = body(
        api.post(json={"kind": "http.request", "payload": {"url": "https://example.com/hook"}})
    )

    assert (job["max_attempts"], job["timeout"], job["priority"]) == (12, 180, 0)


def test_times_are_utc_whatever_the_session_says(api: Api, session: Session) -> None:
    session.execute(sa.text("SET TIME ZONE 'Asia/Tokyo'"))
    job = api.make(available_at="2030-01-31T08:00:00.123456789Z")

    assert job["available_at"] == "2030-01-31T08:00:00.123456Z"


def test_an_unknown_kind_is_refused_by_name(api: Api) -> None:
    answer = api.post(json={"kind": "no.such"})

    assert problem(answer) == (422, "unknown_kind")
    assert body(answer)["kinds"] == ["no.such"]


def test_all_problems_are_told_at_once(api: Api) -> None:
    answer = api.post(
        json={
            "kind": "demo.sleep",
            "payload": {"seconds": "5", "a/b": 1},
            "priority": True,
            "max_attempts": 0,
            "bogus": 1,
            "idempotency_key": "",
        }
    )

    assert problem(answer) == (422, "invalid_job")
    assert sorted(pointers(answer)) == [
        "/bogus", "/idempotency_key", "/max_attempts", "/payload/a~1b", "/payload/seconds",
        "/priority",
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["priority", "max_attempts", "timeout"])
@pytest.mark.parametrize(
    "value", ["2147483648", "-2147483649", "9223372036854775808", "1e300", "5.5", '"5"', '""',
              "true", "false", "null", "[]", "{}", "NaN", "-Infinity", "1e400"],
)  # fmt: skip
def test_numbers_must_be_whole_and_in_range(api: Api, field: str, value: str) -> None:
    answer = api.post_raw(f'{{"kind": "demo.echo", "{field}": {value}}}'.encode())

    assert problem(answer) == (422, "invalid_job")
    assert pointers(answer) == [f"/{field}"]
    assert api.count() == 0


@pytest.mark.parametrize("value", ["0", "-1", "2147483648"])
def test_max_attempts_begins_at_one(api: Api, value: str) -> None:
    answer = api.post_raw(f'{{"kind": "demo.echo", "max_attempts": {value}}}'.encode())

    assert pointers(answer) == ["/max_attempts"]
    assert api.make(max_attempts=1)["max_attempts"] == 1


def test_whole_numbers_may_be_written_as_any_json_number(api: Api) -> None:
    raw = b'{"kind": "demo.echo", "priority": 5.0, "max_attempts": 1e1}'

    job = body(api.post_raw(raw))

    assert (job["priority"], job["max_attempts"]) == (5, 10)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"available_at": "tomorrow"}, "/available_at"),
        ({"available_at": "2030-01-31T08:00:00"}, "/available_at"),
        ({"available_at": "2030-02-30T08:00:00Z"}, "/available_at"),
        ({"available_at": "9999-01-01T00:00:00Z"}, "/available_at"),
        ({"available_at": 0}, "/available_at"),
        ({"delay": -1}, "/delay"),
        ({"delay": "5m"}, "/delay"),
        ({"delay": True}, "/delay"),
        ({"delay": 1e12}, "/delay"),
        ({"delay": 1, "available_at": "2030-01-31T08:00:00Z"}, "/delay"),
    ],
    ids=str,
)
def test_a_due_time_must_make_sense(api: Api, fields: dict[str, Any], pointer: str) -> None:
    answer = api.post(json={"kind": "demo.echo", **fields})

    assert problem(answer) == (422, "invalid_job")
    assert pointers(answer) == [pointer]


# Idempotency


def test_the_same_request_again_is_the_same_job(api: Api) -> None:
    first = api.post(json={"kind": "demo.echo"}, headers={"Idempotency-Key": "k"})
    api.post(f"/{body(first)['id']}/cancel")
    again = api.post(json={"kind": "demo.echo", "idempotency_key": "k"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    assert body(again)["status"] == "cancelled"
    assert "Idempotent-Replayed" not in first.headers


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"demo.echo","payload":{"message":{"a":1,"b":"a"}},"idempotency_key":"k"}',
        '{"idempotency_key":"k","payload":{"message":{"b":"\\u0061","a":1.0}},"kind":"demo.echo"}',
        ' {"kind" : "demo.echo", "payload":{"message":{"a":1e0,"b":"a"}},"idempotency_key":"k"}\n',
    ],
)
def test_what_is_equal_is_equal_however_it_is_written(api: Api, text: str) -> None:
    first = api.make(payload={"message": {"a": 1, "b": "a"}}, idempotency_key="k")

    answer = api.post_raw(text.encode())

    assert (answer.status_code, body(answer)["id"]) == (200, first["id"])


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"payload": {"message": 2}}, ["payload"]),
        ({"kind": "demo.fail", "payload": {}}, ["kind", "payload"]),
        ({"priority": 1}, ["priority"]),
        ({"available_at": "2030-01-31T08:00:00Z"}, ["available_at"]),
        ({"delay": 5}, ["delay"]),
        ({"max_attempts": 5}, ["max_attempts"]),
        ({"timeout": 5}, ["timeout"]),
    ],
    ids=str,
)
def test_a_different_request_with_the_key_is_a_conflict_naming_the_fields(
    api: Api, change: dict[str, Any], fields: list[str]
) -> None:
    wanted = {"kind": "demo.echo", "payload": {"message": 1}, "idempotency_key": "k"}
    first = api.make(**wanted)

    answer = api.post(json=wanted | change)

    assert problem(answer) == (409, "idempotency_conflict")
    assert (body(answer)["job_id"], body(answer)["fields"]) == (first["id"], fields)
    assert api.count() == 1


def test_header_and_field_must_agree(api: Api) -> None:
    wanted = {"kind": "demo.echo", "idempotency_key": "k"}

    assert problem(api.post(json=wanted, headers={"Idempotency-Key": "other"}))[0] == 400
    assert api.post(json=wanted, headers={"Idempotency-Key": "k"}).status_code == 201


def test_strange_keys_are_different_keys(api: Api) -> None:
    keys = ["a", "A", "a ", " a", "é", "e\u0301", "🔑", "line\nbreak", "x" * 200, '"a"', "ａ"]

    made = {api.make(idempotency_key=key)["id"] for key in keys}
    again = {
        body(api.post(json={"kind": "demo.echo", "idempotency_key": key}))["id"] for key in keys
    }

    assert len(made) == len(keys)
    assert made == again


def test_a_header_key_is_read_as_utf_8(api: Api) -> None:
    first = api.make(idempotency_key="Schlüssel-🔑")
    header = "Schlüssel-🔑".encode().decode("latin-1")

    answer = api.post(json={"kind": "demo.echo"}, headers={"Idempotency-Key": header})

    assert body(answer)["id"] == first["id"]
    refused = api.post(json={"kind": "demo.echo"}, headers={"Idempotency-Key": "caf\xe9"})
    assert problem(refused) == (400, "bad_request")


@pytest.mark.parametrize(
    "key", ["", " ", "\t\n", "x" * 201, "x" * 100_000, "a\x00b", "\ud800", 5, True, None, [], {}],
    ids=lambda key: ascii(key)[:20],
)  # fmt: skip
def test_unusable_keys_are_refused_by_name(api: Api, key: Any) -> None:
    answer = api.post(json={"kind": "demo.echo", "idempotency_key": key})

    assert problem(answer) == (422, "invalid_job")
    assert pointers(answer) == ["/idempotency_key"]


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_unusable_header_keys_are_refused(api: Api, key: str) -> None:
    answer = api.post(json={"kind": "demo.echo"}, headers={"Idempotency-Key": key})

    assert problem(answer)[0] == 422


def test_a_refused_request_does_not_use_up_its_key(api: Api) -> None:
    refused = [
        api.post_raw(b'{"kind": "demo.echo", "idempotency_key": "k"'),
        api.post(json={"kind": "demo.echo", "priority": "high", "idempotency_key": "k"}),
        api.post(json={"kind": "no.such", "idempotency_key": "k"}),
        api.post_raw(json.dumps({"kind": "demo.echo", "idempotency_key": "k",
                                 "payload": {"message": "x" * 2**20}}).encode()),
        api.post(json={"kind": "demo.echo"}, headers={"Idempotency-Key": "k", "Origin": "null"}),
    ]  # fmt: skip

    assert [answer.status_code for answer in refused] == [400, 422, 422, 413, 403]
    assert api.post(json={"kind": "demo.echo", "idempotency_key": "k"}).status_code == 201


def test_many_requests_with_one_key_at_once_make_one_job(app: Flask, session: Session) -> None:
    answers, line = [], threading.Barrier(8)

    def post() -> None:
        client = app.test_client()
        line.wait()
        for _ in range(5):
            answers.append(client.post("/api/jobs", json={"kind": "demo.echo"}, headers=key))

    key = {"Idempotency-Key": "k"}
    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answer.status_code for answer in answers) == [200] * 39 + [201]
    assert len({body(answer)["id"] for answer in answers}) == 1
    enqueued = sa.select(sa.func.count()).where(JobEvent.event == "enqueued")
    assert session.scalar(enqueued) == 1
