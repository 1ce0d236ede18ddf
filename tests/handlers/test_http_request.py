"""``http.request`` against a real server: what is sent, what each status means."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from queueapp.errors import InvalidJob
from queueapp.handlers import Fail, Retry, Stop, find
from tests.handlers.calls import only, request
from tests.handlers.conftest import make_context
from tests.handlers.receiver import Receiver, Reply

pytestmark = pytest.mark.usefixtures("local_hosts")


# What is sent


def test_a_webhook_is_a_post_of_json_with_the_jobs_own_key(receiver: Receiver) -> None:
    result = request(receiver.url("/hook?a=b"), json={"total": 3, "name": "ü"})
    sent = only(receiver)
    assert (sent.method, sent.path) == ("POST", "/hook?a=b")
    assert json.loads(sent.body) == {"total": 3, "name": "ü"}
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["idempotency-key"] == "job-7"
    assert sent.headers["user-agent"].startswith("queueapp")
    assert sent.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert (result["status"], result["body"], result["truncated"]) == (200, "ok", False)
    assert result["ms"] >= 0


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"])
def test_every_method_is_sent_as_named(receiver: Receiver, method: str) -> None:
    result = request(receiver.url(), method=method)
    assert only(receiver).method == method
    assert result["body"] == ("" if method == "HEAD" else "ok")
    assert not result["truncated"]


def test_no_json_means_no_body(receiver: Receiver) -> None:
    request(receiver.url())
    assert only(receiver).body == b""
    assert "content-type" not in only(receiver).headers


def test_own_headers_are_sent_and_win_except_for_the_key(receiver: Receiver) -> None:
    headers = {
        "X-Team": "shop", "content-type": "application/vnd.shop+json", "User-Agent": "shop/2",
        "idempotency-key": "mine", "Authorization": "Bearer x",
    }  # fmt: skip
    request(receiver.url(), json=[1], headers=headers)
    sent = only(receiver).headers
    assert (sent["x-team"], sent["user-agent"]) == ("shop", "shop/2")
    assert sent["content-type"] == "application/vnd.shop+json"
    assert sent["idempotency-key"] == "job-7"
    assert sent["authorization"] == "Bearer x"


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nY: b"},
        {"X": "a\n"},
        {"X": "a\x00"},
        {"X": "😀"},
        {"X\r\nY": "b"},
        {"X Y": "b"},
        {"": "b"},
        {"Ü": "b"},
        {"X:": "b"},
        {"Host": "evil.test"},
        {"content-length": "5"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "keep-alive"},
        {"Expect": "100-continue"},
        {"X": 5},
    ],
)
def test_headers_that_could_break_the_request_are_refused(headers: dict[str, Any]) -> None:
    known = find("http.request")
    assert known is not None
    with pytest.raises(InvalidJob) as refusal:
        known.check({"url": "http://127.0.0.1/", "headers": headers})
    (found,) = refusal.value.context["errors"]
    assert found["pointer"].startswith("/payload/headers")


def test_a_refused_header_is_named_in_the_answer() -> None:
    known = find("http.request")
    assert known is not None
    with pytest.raises(InvalidJob) as refusal:
        known.check({"url": "http://127.0.0.1/", "headers": {"Host": "evil.test"}})
    assert refusal.value.context["errors"] == [
        {
            "pointer": "/payload/headers",
            "detail": "the header Host is set by the connection itself",
        }
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ftp://127.0.0.1/"},
        {"url": "http://ana:secret@127.0.0.1/"},
        {"method": "TRACE"},
        {"method": "post"},
        {"timeout": 0},
        {"timeout": 121},
        {"body": "x"},
    ],
)
def test_odd_fields_are_refused_at_enqueue(fields: dict[str, Any]) -> None:
    known = find("http.request")
    assert known is not None
    with pytest.raises(InvalidJob) as refusal:
        known.check({"url": "http://127.0.0.1/", **fields})
    assert [one["pointer"] for one in refusal.value.context["errors"]] == [
        f"/payload/{name}" for name in fields
    ]
    assert "secret" not in str(refusal.value.context)


# What the answer means


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_succeeds(receiver: Receiver, status: int) -> None:
    receiver.replies["/"] = Reply(status, b"")
    assert request(receiver.url())["status"] == status


@pytest.mark.parametrize("status", [300, 304, 400, 401, 403, 404, 408, 409, 410, 422, 499])
def test_other_statuses_end_the_job(receiver: Receiver, status: int) -> None:
    receiver.replies["/"] = Reply(status, b"")
    with pytest.raises(Fail, match=f"127.0.0.1 answered {status}"):
        request(receiver.url())
    assert len(receiver.received) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
def test_429_and_5xx_try_again(receiver: Receiver, status: int) -> None:
    receiver.replies["/"] = Reply(status)
    with pytest.raises(Retry, match=f"127.0.0.1 answered {status}") as retry:
        request(receiver.url())
    assert retry.value.after_s is None


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("86400", 3600),
        ("9999999999", 3600),
        ("99999999999999", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
    ],
)
def test_retry_after_is_obeyed_within_an_hour(
    receiver: Receiver, text: str, after: float | None
) -> None:
    receiver.replies["/"] = Reply(503, headers={"Retry-After": text})
    with pytest.raises(Retry) as retry:
        request(receiver.url())
    assert retry.value.after_s == after


def test_retry_after_may_be_a_date(receiver: Receiver) -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    receiver.replies["/"] = Reply(429, headers={"Retry-After": until})
    with pytest.raises(Retry) as retry:
        request(receiver.url())
    assert retry.value.after_s is not None
    assert 80 < retry.value.after_s <= 90


def test_the_body_is_cut_and_decoded_as_far_as_it_goes(receiver: Receiver) -> None:
    receiver.replies["/long"] = Reply(body=b"x" * 100_000)
    receiver.replies["/exact"] = Reply(body=b"x" * 8192)
    receiver.replies["/latin"] = Reply(
        body="é".encode("latin-1"), headers={"Content-Type": "text/plain; charset=iso-8859-1"}
    )
    receiver.replies["/odd"] = Reply(body=b"\xff\x00", headers={"Content-Type": "a/b;charset=hex"})
    long, exact = request(receiver.url("/long")), request(receiver.url("/exact"))
    assert (len(long["body"]), long["truncated"]) == (8192, True)
    assert (len(exact["body"]), exact["truncated"]) == (8192, False)
    assert request(receiver.url("/latin"))["body"] == "é"
    assert request(receiver.url("/odd"))["body"] == "\ufffd\x00"


def test_only_harmless_headers_are_kept(receiver: Receiver) -> None:
    receiver.replies["/"] = Reply(headers={"Set-Cookie": "session=1", "X-Request-Id": "r1"})
    kept = request(receiver.url())["headers"]
    assert kept["x-request-id"] == "r1"
    assert not {name for name in kept if "cookie" in name.lower()}


def test_a_chunked_body_is_read(receiver: Receiver) -> None:
    receiver.replies["/"] = Reply(
        raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
    )
    result = request(receiver.url())
    assert (result["body"], result["truncated"]) == ("hello", False)


# Stopping


def test_a_stopped_attempt_sends_nothing(receiver: Receiver) -> None:
    context = make_context()
    context.interrupt("cancel")
    with pytest.raises(Stop):
        request(receiver.url(), context)
    assert receiver.received == []


def test_the_timeout_is_for_all_hops_together(receiver: Receiver) -> None:
    def slowly(connection: Any) -> None:
        time.sleep(0.25)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")

    receiver.replies["/"] = Reply(raw=slowly)
    with pytest.raises(Retry, match="did not answer in time"):
        request(receiver.url(), timeout=0.6)
    assert len(receiver.received) <= 3
