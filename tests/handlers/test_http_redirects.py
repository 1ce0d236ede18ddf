"""``http.request`` follows redirects as browsers do, and takes no secret along to another host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queueapp.handlers import Fail
from tests.handlers.calls import only, request
from tests.handlers.receiver import Receiver, Reply

pytestmark = pytest.mark.usefixtures("local_hosts")


@pytest.fixture
def other() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (302, "PUT", "PUT"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "PATCH", "PATCH"),
    ],
)
def test_a_redirect_is_followed_as_browsers_do(
    receiver: Receiver, status: int, method: str, then: str
) -> None:
    receiver.replies["/old?x"] = Reply(status, headers={"Location": "new?y"})
    request(receiver.url("/old?x"), method=method, json={"a": 1})
    first, second = receiver.received
    assert (second.method, second.path) == (then, "/new?y")
    assert second.body == (b"" if then == "GET" else first.body)
    assert ("content-type" in second.headers) == (then != "GET")
    assert second.headers["idempotency-key"] == "job-7"


def test_credentials_stay_with_the_host_they_were_meant_for(
    receiver: Receiver, other: Receiver
) -> None:
    headers = {
        "Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "X-Hub-Signature": "s",
        "X-Team": "shop",
    }  # fmt: skip
    receiver.replies["/same"] = Reply(307, headers={"Location": "/here"})
    receiver.replies["/away"] = Reply(307, headers={"Location": other.url("/there")})
    receiver.replies["/name"] = Reply(307, headers={"Location": receiver.url("/x", "localhost")})
    for path in ("/same", "/away", "/name"):
        request(receiver.url(path), headers=headers)
    here = next(one for one in receiver.received if one.path == "/here")
    named = next(one for one in receiver.received if one.path == "/x")
    assert here.headers["authorization"] == "Bearer x"
    for away in (only(other), named):
        assert away.headers["x-team"] == "shop"
        assert away.headers["idempotency-key"] == "job-7"
        assert not {"authorization", "cookie", "x-api-key", "x-hub-signature"} & set(away.headers)


def test_five_redirects_are_followed_and_no_more(receiver: Receiver) -> None:
    for hop in range(6):
        receiver.replies[f"/{hop}"] = Reply(302, headers={"Location": f"/{hop + 1}"})
    assert request(receiver.url("/1"))["status"] == 200
    with pytest.raises(Fail, match="more than 5 redirects"):
        request(receiver.url("/0"))


@pytest.mark.parametrize(
    "location",
    [
        "ftp://127.0.0.1/",
        "http://ana:secret@127.0.0.1/",
        "http://127.0.0.1:99999/",
    ],
)
def test_a_redirect_to_no_usable_url_ends_the_job(receiver: Receiver, location: str) -> None:
    receiver.replies["/"] = Reply(302, headers={"Location": location})
    with pytest.raises(Fail, match="redirects to no usable") as failure:
        request(receiver.url())
    assert "secret" not in failure.value.reason


def test_a_redirect_to_a_host_that_is_not_allowed_ends_the_job(receiver: Receiver) -> None:
    receiver.replies["/"] = Reply(302, headers={"Location": "http://elsewhere.test/?token=secret"})
    with pytest.raises(Fail, match=r"elsewhere\.test is not among QUEUE_HTTP_ALLOWED") as failure:
        request(receiver.url())
    assert "secret" not in failure.value.reason


def test_a_location_is_escaped_where_it_has_to_be(receiver: Receiver) -> None:
    receiver.replies["/"] = Reply(302, headers={"Location": "/ü x"})
    request(receiver.url(), method="GET")
    assert receiver.received[1].path == "/%FC%20x"


def test_a_redirect_without_a_location_is_an_answer(receiver: Receiver) -> None:
    receiver.replies["/"] = Reply(302)
    with pytest.raises(Fail, match="answered 302"):
        request(receiver.url())
