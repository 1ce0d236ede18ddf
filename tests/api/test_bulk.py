"""POST /api/jobs/bulk: many jobs at once, all or none, or each by itself."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from queueapp.api import bulk
from queueapp.jobs.models import Job, JobEvent
from tests.api.conftest import Api, body, pointers, problem
from tests.api.test_bodies import Broken

ECHO = {"kind": "demo.echo"}
NDJSON = "application/x-ndjson"


def ndjson(*items: Any) -> bytes:
    """Lines; bytes as they stand."""
    return b"".join(
        (item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items
    )


@pytest.fixture(params=["array", "lines"])
def send(request: pytest.FixtureRequest, api: Api) -> Any:
    """Posts the items in either form."""

    def post(*items: Any, query: str = "") -> TestResponse:
        if request.param == "array":
            return api.post(f"/bulk{query}", json=list(items))
        return api.post(f"/bulk{query}", data=ndjson(*items), content_type=NDJSON)

    return post


def test_jobs_are_created_in_the_order_of_the_request(send: Any, session: Session) -> None:
    answer = send(
        {**ECHO, "payload": {"message": "ü"}, "priority": 5.0, "delay": 60, "timeout": 9},
        {**ECHO, "idempotency_key": "b"},
        {**ECHO, "available_at": "2030-01-31T08:00:00Z", "idempotency_key": "a"},
    )

    assert answer.status_code == 200
    assert body(answer)["counts"] == {"new": 3, "replay": 0, "conflict": 0, "invalid": 0}
    ids = [one["id"] for one in body(answer)["items"]]
    assert ids == sorted(ids)
    assert body(answer)["items"][0]["url"] == f"/api/jobs/{ids[0]}"
    first, _, last = (session.get_one(Job, one) for one in ids)
    assert (first.payload, first.priority, first.timeout_s) == ({"message": "ü"}, 5, 9)
    assert (first.available_at - first.created_at).total_seconds() == 60
    assert last.available_at.isoformat() == "2030-01-31T08:00:00+00:00"
    events = session.scalars(sa.select(JobEvent).order_by(JobEvent.job_id)).all()
    assert [(one.job_id, one.event, one.data["via"]) for one in events] == [
        (one, "enqueued", "api") for one in ids
    ]


def test_the_same_request_again_creates_nothing(send: Any, api: Api) -> None:
    items = [{**ECHO, "idempotency_key": key} for key in ("b", "a", "b")]
    first, again = send(*items), send(*items)

    assert body(first)["counts"] == {"new": 2, "replay": 1, "conflict": 0, "invalid": 0}
    assert body(again)["counts"] == {"new": 0, "replay": 3, "conflict": 0, "invalid": 0}
    assert [one["id"] for one in body(first)["items"]] == [
        one["id"] for one in body(again)["items"]
    ]
    assert api.count() == 2


BAD: list[Any] = [
    {**ECHO, "idempotency_key": "k", "priority": 1},
    {"kind": "demo.sleep", "payload": {"seconds": "5"}, "bogus": 1},
    {"kind": "no.such"},
    5,
]


def test_one_bad_job_keeps_all_from_being_created(send: Any, api: Api) -> None:
    answer = send(ECHO, *BAD[1:])

    assert problem(answer) == (422, "invalid_job")
    assert sorted(pointers(answer)) == ["/1/bogus", "/1/payload/seconds", "/2/kind", "/3"]
    assert body(answer)["invalid"] == 3
    assert api.count() == 0


def test_a_key_of_another_request_keeps_all_from_being_created(send: Any, api: Api) -> None:
    first = api.make(idempotency_key="k")

    answer = send(ECHO, {**ECHO, "idempotency_key": "k", "priority": 1})

    assert problem(answer) == (409, "idempotency_conflict")
    assert pointers(answer) == ["/1/idempotency_key"]
    assert (body(answer)["job_id"], body(answer)["fields"]) == (first["id"], ["priority"])
    assert api.count() == 1


def test_each_by_itself_is_created_or_told_why_not(send: Any, api: Api) -> None:
    first = api.make(idempotency_key="k")

    answer = send({**ECHO, "idempotency_key": "k"}, *BAD, ECHO, query="?atomic=false")

    assert answer.status_code == 200
    items = body(answer)["items"]
    assert [one["outcome"] for one in items] == [
        "replay", "conflict", "invalid", "invalid", "invalid", "new",
    ]  # fmt: skip
    assert items[0]["id"] == items[1]["id"] == first["id"]
    assert items[1]["problem"]["fields"] == ["priority"]
    assert [one["problem"]["code"] for one in items[2:5]] == [
        "invalid_job", "unknown_kind", "invalid_job",
    ]  # fmt: skip
    assert [one["pointer"] for one in items[2]["problem"]["errors"]] == [
        "/bogus", "/payload/seconds",
    ]  # fmt: skip
    assert body(answer)["counts"] == {"new": 1, "replay": 1, "conflict": 1, "invalid": 3}
    assert api.count() == 2


def test_no_jobs_are_no_error(send: Any) -> None:
    assert body(send())["items"] == []


def test_a_line_that_is_no_json_spoils_itself_alone(api: Api) -> None:
    lines = ndjson(
        b'{"kind": "demo.echo"', b'{"kind": "demo.echo", "kind": "x"}', b"", b"\xff", ECHO,
        b'{"kind": "demo.echo", "payload": {"message": "' + b"x" * 2**20 + b'"}}', ECHO,
        b"[" * 100_000,
    )  # fmt: skip

    answer = api.post("/bulk?atomic=false", data=lines.rstrip(b"\n"), content_type=NDJSON)
    refused = api.post("/bulk", data=lines, content_type=NDJSON)

    items = body(answer)["items"]
    assert [one["outcome"] for one in items] == [
        "invalid", "invalid", "invalid", "new", "invalid", "new", "invalid",
    ]  # fmt: skip
    assert "this is not JSON" in items[0]["problem"]["detail"]
    assert items[1]["problem"]["errors"][0]["pointer"] == "/kind"
    assert "longer than 1024 KiB" in items[4]["problem"]["detail"]
    assert problem(refused) == (422, "invalid_job")
    assert pointers(refused) == ["/0", "/1/kind", "/2", "/4", "/6"]
    assert api.count() == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"data": b"[", "content_type": "application/json"}, (400, "bad_request")),
        ({"data": b"", "content_type": "application/json"}, (400, "bad_request")),
        ({"json": ECHO}, (422, "invalid_request")),
        ({"data": b'[{"kind":1,"kind":2}]', "content_type": "application/json"},
         (422, "invalid_request")),
        ({"data": b"{}", "content_type": "text/plain"}, (415, "unsupported_media_type")),
        ({"data": b"{}", "content_type": NDJSON, "headers": {"Content-Encoding": "gzip"}},
         (415, "unsupported_media_type")),
        ({"json": [ECHO], "headers": {"Idempotency-Key": "k"}}, (400, "bad_request")),
        ({"json": [ECHO], "headers": {"Origin": "https://elsewhere.example"}},
         (403, "not_allowed")),
        ({"json": [ECHO], "query_string": "atomic=maybe"}, (400, "bad_request")),
        ({"json": [ECHO], "query_string": "bogus=1"}, (400, "bad_request")),
        ({"json": [ECHO] * 5001}, (422, "invalid_request")),
        ({"data": ndjson(*[ECHO] * 5001), "content_type": NDJSON}, (422, "invalid_request")),
    ],
    ids=lambda value: ascii(value)[:60],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(
    api: Api, options: dict[str, Any], said: tuple[int, str]
) -> None:
    answer = api.post("/bulk", **options)

    assert problem(answer) == said
    assert api.count() == 0


@pytest.mark.parametrize("content_type", ["application/json", NDJSON])
@pytest.mark.parametrize("told", [True, False], ids=["length told", "in chunks"])
def test_a_body_over_the_limit_is_refused(api: Api, content_type: str, told: bool) -> None:
    large = (json.dumps(ECHO).encode() + b" " * 2**19 + b"\n") * 33
    options: dict[str, Any] = {"data": large}
    if not told:
        options = {
            "input_stream": io.BytesIO(large),
            "headers": {"Transfer-Encoding": "chunked"},
            "environ_overrides": {"wsgi.input_terminated": True},
        }

    answer = api.post("/bulk", content_type=content_type, **options)

    assert len(large) > bulk.LARGEST_BULK
    assert problem(answer) == (413, "body_too_large")
    assert api.count() == 0


def test_lines_that_break_off_are_a_bad_request(api: Api) -> None:
    answer = api.post(
        "/bulk",
        input_stream=Broken(),
        content_type=NDJSON,
        headers={"Transfer-Encoding": "chunked"},
        environ_overrides={"wsgi.input_terminated": True},
    )

    assert problem(answer) == (400, "bad_request")
    assert "chunks are malformed" in body(answer)["detail"]
