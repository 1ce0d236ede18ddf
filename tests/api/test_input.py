"""Bodies, ids and query strings as they should not be: 4xx in the API's own form, never a 500."""

from __future__ import annotations

import gzip
import io
import json

import pytest
from flask.testing import FlaskClient

from tests.api.conftest import Api, body, pointers, problem

GOOD = {"kind": "demo.echo"}


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "bad_request"),
        (b"\xff", "bad_request"),
        (json.dumps(GOOD).encode("utf-16"), "bad_request"),
        (b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), "bad_request"),
        (b'{"kind": "demo.echo"', "bad_request"),
        (b'{"kind": "demo.echo",}', "bad_request"),
        (b'{"kind": "demo.echo"} {}', "bad_request"),
        (b"{'kind': 'demo.echo'}", "bad_request"),
        (b'{"kind": "demo.echo", "payload": {"message": "\x00"}}', "bad_request"),
        (gzip.compress(json.dumps(GOOD).encode(), mtime=0), "bad_request"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_not_json_is_refused(api: Api, raw: bytes, code: str) -> None:
    assert problem(api.post_raw(raw)) == (400, code)


@pytest.mark.parametrize("raw", [b"null", b"[]", b'"x"', b"1", b"true", b"NaN"])
def test_json_that_is_no_object_is_refused(api: Api, raw: bytes) -> None:
    answer = api.post_raw(raw)

    assert problem(answer) == (422, "invalid_job")
    assert pointers(answer) == [""]


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "application/json5", "application/vnd.api+json"],
)  # fmt: skip
def test_other_media_types_are_refused(api: Api, content_type: str) -> None:
    answer = api.post(data=json.dumps(GOOD), content_type=content_type)

    assert problem(answer) == (415, "unsupported_media_type")


def test_a_charset_beside_the_type_is_no_offence(api: Api) -> None:
    answer = api.post(data=json.dumps(GOOD), content_type="application/json; charset=utf-8")

    assert answer.status_code == 201


def test_a_compressed_body_is_refused(api: Api) -> None:
    packed = gzip.compress(json.dumps(GOOD).encode())

    assert problem(api.post_raw(packed, headers={"Content-Encoding": "gzip"}))[0] == 415


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [
        (b'{"kind": "demo.echo", "kind": "demo.fail"}', "/kind"),
        (b'{"kind": "demo.echo", "payload": {"a": [0, {"b": 1, "b": 1}]}}', "/payload/a/1/b"),
        (b'{"payload": {"x": {"a": 1, "a": 2}}, "payload": {}, "kind": "demo.echo"}', "/a"),
    ],
)
def test_a_name_given_twice_is_refused(api: Api, raw: bytes, pointer: str) -> None:
    answer = api.post_raw(raw)

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer) == [pointer]


def test_a_name_given_twice_is_found_among_very_many(api: Api) -> None:
    names = ",".join(f'"{name}":0' for name in [*range(100_000), 99_999])

    answer = api.post_raw(f"{{{names}}}".encode())

    assert problem(answer) == (422, "invalid_request")
    assert pointers(answer) == ["/99999"]


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        (r'{"message": "a\u0000b"}', "/payload/message"),
        (r'{"message": {"a\u0000b": 1}}', r"/payload/message/a\x00b"),
        (r'{"message": [[["\u0000"]]]}', "/payload/message/0/0/0"),
        (r'{"message": "\ud800"}', "/payload/message"),
        (r'{"message": {"\udfff": 1}}', r"/payload/message/\udfff"),
        ('{"message": NaN}', "/payload/message"),
        ('{"message": [1, -Infinity]}', "/payload/message/1"),
        ('{"message": 1e400}', "/payload/message"),
        ('{"message": -1e400}', "/payload/message"),
        ('{"message": ' + "9" * 400 + "}", "/payload/message"),
        ('{"message": ' + "[" * 32 + "]" * 32 + "}", "/payload/message" + "/0" * 31),
        ("[]", "/payload"),
        ("null", "/payload"),
        ('"text"', "/payload"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(
    api: Api, payload: str, pointer: str
) -> None:
    answer = api.post_raw(f'{{"kind": "demo.echo", "payload": {payload}}}'.encode())

    assert problem(answer) == (422, "invalid_job")
    assert pointers(answer) == [pointer]
    assert api.count() == 0


@pytest.mark.parametrize(
    "text", [r"\u0000", r"\\u0000", "\\ud800", "\x01\x1f\x7f", "🔑", "\ufeff", "\u2028", ""]
)
def test_harmless_text_comes_back_unchanged(api: Api, text: str) -> None:
    job = api.make(payload={"message": text})

    assert body(api.get(f"/{job['id']}"))["payload"] == {"message": text}


@pytest.mark.parametrize("field", ["kind", "idempotency_key", "available_at", "bogus\x00"])
@pytest.mark.parametrize("value", ["a\x00b", "\ud800"])
def test_other_fields_take_no_nul_either(api: Api, field: str, value: str) -> None:
    answer = api.post(json={"kind": "demo.echo", field: value})

    assert problem(answer)[0] == 422
    assert len(pointers(answer)) == 1


@pytest.mark.parametrize(
    "raw", [b"[" * 200_000, b'{"a":' * 100_000, b'{"kind": ' + b"1" * 5000 + b"}"]
)
def test_bottomless_bodies_are_refused(api: Api, raw: bytes) -> None:
    assert problem(api.post_raw(raw)) == (422, "invalid_request")


def test_a_payload_at_the_limit_is_taken_and_one_above_is_not(api: Api) -> None:
    rest = len('{"message":""}')

    assert len(api.make(payload={"message": "x" * (256 * 1024 - rest)})["payload"]["message"])
    answer = api.post(json={"kind": "demo.echo", "payload": {"message": "x" * (256 * 1024)}})
    assert pointers(answer) == ["/payload"]


# Body size


def test_a_body_over_the_limit_is_refused_as_json(api: Api) -> None:
    answer = api.post_raw(b" " * (1024 * 1024 + 1))

    assert problem(answer) == (413, "body_too_large")
    assert "1048576" in body(answer)["detail"]


def test_a_body_without_a_length_is_measured_as_it_comes(client: FlaskClient) -> None:
    answer = client.post(
        "/api/jobs",
        content_type="application/json",
        input_stream=io.BytesIO(b" " * (10 * 1024 * 1024)),
        environ_overrides={"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
    )

    assert problem(answer) == (413, "body_too_large")


class Unread(io.BytesIO):
    """A body that nobody may read."""

    def read(self, *_args: object) -> bytes:
        raise AssertionError("the body was read")

    readline = readinto = read  # type: ignore[assignment]


def test_a_body_is_not_read_before_its_sender_is_known(client: FlaskClient) -> None:
    answer = client.post(
        "/api/jobs",
        content_type="application/json",
        input_stream=Unread(),
        environ_overrides={"REMOTE_ADDR": "203.0.113.7", "wsgi.input_terminated": True},
    )

    assert problem(answer) == (403, "not_allowed")


# Ids

ODD_IDS = (
    "x", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "1_0", "١", "9223372036854775808",
    "1" * 100, "1;--", "1'", "%00", "1%00", "null", "5f4dcc3b-5aa7-65d6-1d83-27deb882cf9",
)  # fmt: skip


@pytest.mark.parametrize("job_id", [*ODD_IDS, "999999", "9223372036854775807"])
def test_what_is_no_job_is_not_found_in_json(api: Api, job_id: str) -> None:
    for answer in (
        api.get(f"/{job_id}"),
        api.get(f"/{job_id}/events"),
        api.post(f"/{job_id}/cancel"),
        api.post(f"/{job_id}/retry"),
    ):
        assert problem(answer) == (404, "job_not_found")


@pytest.mark.parametrize("path", ["/", "/../1", "/1/", "//1", "/1/nothing", "/1%2Fcancel/x"])
def test_what_is_no_address_is_not_found_in_json(api: Api, path: str) -> None:
    assert problem(api.get(path)) == (404, "not_found")


# Query strings


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("status=qeued", "status"),
        ("status=", "status"),
        ("status=queued,", "status"),
        ("status=queued&status=nope", "status"),
        ("status=Queued", "status"),
        ("stauts=failed", "stauts"),
        ("kind=", "kind"),
        ("kind=a%00b", "kind"),
        ("kind=" + "k" * 10_000, "kind"),
        ("kind=a&kind=b", "kind"),
        ("producer=%00", "producer"),
        ("fingerprint=" + "f" * 201, "fingerprint"),
        ("idempotency_key=%00", "idempotency_key"),
        ("priority=high", "priority"),
        ("priority=1.5", "priority"),
        ("priority=99999", "priority"),
        ("priority=%D9%A1", "priority"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=-1", "limit"),
        ("limit=1_0", "limit"),
        ("limit=", "limit"),
        ("before=0", "before"),
        ("before=x", "before"),
        ("before=9223372036854775808", "before"),
        ("before=" + "9" * 5000, "before"),
        ("%00=1", "\\x00"),
        ("=1", ""),
    ],
    ids=lambda value: value[:30],
)
def test_a_bad_parameter_is_refused_by_name(api: Api, query: str, parameter: str) -> None:
    answer = api.get(f"?{query}")

    assert problem(answer) == (400, "bad_request")
    assert [one["parameter"] for one in body(answer)["errors"]] == [parameter]


@pytest.mark.parametrize("query", ["after=x", "after=-1", "limit=0", "limit=201", "before=1"])
def test_a_bad_parameter_of_events_is_refused(api: Api, query: str) -> None:
    job = api.make()

    assert problem(api.get(f"/{job['id']}/events?{query}")) == (400, "bad_request")


@pytest.mark.parametrize("query", ["kind=%25", "kind=%5F"])
def test_a_filter_is_no_pattern(api: Api, query: str) -> None:
    api.make()

    assert body(api.get(f"?{query}"))["items"] == []


# What each takes nothing of; those that take some are tried where they are.
NO_PARAMETERS = (
    ("POST", "/api/jobs/1/cancel"),
    ("POST", "/api/jobs/1/retry"),
    ("GET", "/api/jobs/1"),
    ("POST", "/api/operations"),
    ("POST", "/api/leases"),
    ("GET", "/api/stats"),
    ("GET", "/api/kinds"),
)


@pytest.mark.parametrize(("method", "path"), NO_PARAMETERS)
def test_a_parameter_where_none_is_taken_is_refused(
    client: FlaskClient, method: str, path: str
) -> None:
    answer = client.open(f"{path}?reason=zz", method=method)

    assert problem(answer) == (400, "bad_request")
    assert body(answer)["errors"] == [{"parameter": "reason", "detail": "unknown parameter"}]


def test_what_anybody_may_open_is_opened_whatever_a_link_adds(client: FlaskClient) -> None:
    for path in ("/healthz", "/api/docs/", "/api/openapi.json"):
        assert client.get(f"{path}?from=mail").status_code == 200


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00Z", "0999-12-31T23:59:59Z", "1969-12-31T23:59:59Z"]
)
def test_a_time_before_all_others_is_refused(client: FlaskClient, api: Api, at: str) -> None:
    job = {"kind": "demo.echo", "available_at": at}
    made = api.make()

    answers = [
        client.post("/api/jobs", json=job),
        client.post(f"/api/jobs/{made['id']}/reschedule", json={"available_at": at}),
        client.post(
            "/api/operations",
            json={"verb": "reschedule", "filter": {"kind": "x"}, "reason": "r", "available_at": at},
        ),
    ]

    for answer in answers:
        assert answer.status_code == 422, answer.text
        assert body(answer)["errors"] == [
            {"pointer": "/available_at", "detail": "must be 1970-01-01T00:00:00Z or later"}
        ]


@pytest.mark.parametrize("query", ["kind=%FF", "producer=%ED%A0%80"])
def test_a_query_that_is_not_utf_8_is_refused_rather_than_finding_nothing(
    api: Api, query: str
) -> None:
    answer = api.get(f"?{query}")

    assert problem(answer) == (400, "bad_request")
    assert "UTF-8" in body(answer)["detail"]
