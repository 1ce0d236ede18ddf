"""Clients that are slow, or speak no HTTP, keep nobody else waiting and learn nothing."""

from __future__ import annotations

import hashlib
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey, Web
from tests.live.processes import until
from tests.live.raw import (
    Piece,
    ask,
    children_of,
    exchange,
    head,
    memory_of,
    read_all,
    statuses,
)

TOKEN = "the-token-of-shop"
TOKENS = f"shop:producer:{hashlib.sha256(TOKEN.encode()).hexdigest()}"
BEARER = f"Authorization: Bearer {TOKEN}"
JSON = "Content-Type: application/json"
SECRET = "hunter2-in-the-request"
MIB = 1024 * 1024


@pytest.fixture
def web(journey: Journey) -> Iterator[Web]:
    """One process with two threads, which asks for tokens."""
    web = journey.web(workers=1, threads=2, QUEUE_TOKENS=TOKENS)
    workers = children_of(web.process)
    yield web
    assert children_of(web.process) == workers, "a worker has died"
    assert "Traceback" not in web.process.said()
    stand(journey)


NO_REQUEST = (
    (b"hello\r\n\r\n", 400, "bad_request"),
    (f"GET /api/jobs?key={SECRET} x HTTP/1.1\r\n\r\n".encode(), 400, "bad_request"),
    (f"GET / HTTP/1.1\r\nAuthorization Bearer {SECRET}\r\n\r\n".encode(), 400, "bad_request"),
    (head("GET", "/", f"X: {SECRET}\x00"), 400, "bad_request"),
    (b"GET / HTTP/1.1\nHost: x\n\n", 400, "bad_request"),
    (head("GET", "/api/jobs", f"Authorization: Bearer {SECRET}\x00"), 400, "bad_request"),
    (head("GET", "/api/jobs", f"Authorization: Bearer {SECRET * 50_000}"), 431, "http_431"),
    (head("POST", "/api/jobs", "Transfer-Encoding: zip"), 400, "bad_request"),
    (head("POST", "/api/jobs", "Content-Length: 1", "Content-Length: 2"), 400, "bad_request"),
    (head("GET", "/", "Expect: the worst"), 417, "http_417"),
    (head("GET", f"/{SECRET}" + "a" * 9000), 414, "http_414"),
    (head("GET", "/", f"X: {SECRET}" + "a" * 9000), 431, "http_431"),
    (head("GET", "/", *(f"X-{number}: {SECRET}" for number in range(101))), 431, "http_431"),
    (b"G" * 40_000, 414, "http_414"),
    (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, 431, "http_431"),
)


def test_what_is_no_request_is_refused_in_the_form_of_the_api(web: Web) -> None:
    for sent, status, code in NO_REQUEST:
        said = ask(web.port, sent)

        top, _, text = said.partition(b"\r\n\r\n")
        problem = json.loads(text)
        assert (statuses(said), problem["status"], problem["code"]) == ([status], status, code)
        assert {"type", "title", "detail", "request_id"} <= set(problem)
        for line in (
            b"Content-Type: application/problem+json", b"X-Content-Type-Options: nosniff",
            b"Cache-Control: no-store", b"Content-Security-Policy: default-src 'none'",
            b"X-Request-Id: " + problem["request_id"].encode(), b"Connection: close",
        ):  # fmt: skip
            assert line in top, top
        assert problem["request_id"] in web.process.said()
        assert SECRET not in said.decode()
    assert SECRET not in web.process.said()


def test_the_log_has_the_ids_of_requests_and_no_query(web: Web) -> None:
    sent = ask(web.port, head("GET", f"/api/jobs%0aGET?idempotency_key={SECRET}", BEARER))
    found = re.search(rb"X-Request-Id: (\w+)", sent)

    assert found
    line = f'"GET /api/jobs%0aGET HTTP/1.1" 404 .* {found[1].decode()}'
    web.process.wait_until_it_says(line)
    assert SECRET not in web.process.said()
    assert TOKEN not in web.process.said()


def test_slow_senders_keep_nobody_waiting(web: Web) -> None:
    """Twenty of each kind, for two threads: a thread for each would be none for the others."""
    body = head("POST", "/api/jobs", JSON, "Content-Length: 10000000")
    with ExitStack() as open_:
        slow: list[socket.socket] = []
        for number in range(60):
            one = socket.create_connection(("127.0.0.1", web.port), timeout=40)
            slow.append(open_.enter_context(one))
            one.sendall((b"", b"GET /healthz HTTP/1.1\r\nX: ", body)[number % 3])

        for _ in range(3):
            assert web.ask("GET", "/healthz").status == 200
            answer = web.ask("GET", "/api/jobs", Authorization=f"Bearer {TOKEN}")
            assert answer.status == 200
            for one in slow:
                try:
                    one.sendall(b"x")
                except OSError:
                    continue  # cut off by now

        # Whoever shows no token is answered without a look at what they send.
        assert {tuple(statuses(read_all(one))) for one in slow[2::3]} == {(401,)}


@pytest.mark.slow
def test_a_request_of_a_byte_a_second_is_cut_off(web: Web) -> None:
    said = exchange(web.port, [(b"GET /healthz HTTP/1.1\r\nX: ", 0.0), *[(b"x", 1.0)] * 30])
    assert (statuses(said), b"request_timeout" in said) == ([408], True)

    begin = head("POST", "/api/jobs", JSON, BEARER, "Content-Length: 1000")

    said = exchange(web.port, [(begin, 0.0), *[(b" ", 1.0)] * 30])

    assert statuses(said) == [408]
    assert b"request_timeout" in said
    assert web.ask("GET", "/healthz").status == 200


def test_large_bodies_are_refused_whatever_is_said_of_their_length(web: Web) -> None:
    workers = children_of(web.process)
    ten, piece = 10_000_000, (b" " * MIB, 0.0)
    chunk = (b"100000\r\n" + b" " * MIB + b"\r\n", 0.0)

    def refusals(*more: str) -> list[list[int]]:
        def post(header: str) -> Piece:
            return head("POST", "/api/jobs", JSON, "Connection: close", *more, header), 0.0

        kinds = (
            [post(f"Content-Length: {ten}"), *[piece] * 9],
            [post("Transfer-Encoding: chunked"), *[chunk] * 9, (b"0\r\n\r\n", 0.0)],
            # Two hundred megabytes are promised: nobody waits for them.
            [post("Content-Length: 200000000")],
            # Ten bytes are promised: what follows them is no part of the body.
            [post("Content-Length: 10"), (b" " * ten, 0.0)],
        )
        with ThreadPoolExecutor(20) as pool:
            return [statuses(said) for said in pool.map(partial(exchange, web.port), kinds * 5)]

    assert refusals(BEARER) == [[413], [413], [413], [400]] * 5
    before = memory_of(workers)
    assert refusals() == [[401]] * 20
    assert refusals(BEARER) == [[413], [413], [413], [400]] * 5
    assert memory_of(workers) < before + 16 * MIB
    assert web.ask("GET", "/healthz").status == 200


def test_what_is_sent_twice_is_not_taken_for_something_else(web: Web) -> None:
    body = b'{"kind": "journey.tick"}'
    length = f"Content-Length: {len(body)}"

    def create(*keys: str) -> list[int]:
        return statuses(
            ask(web.port, head("POST", "/api/jobs", JSON, BEARER, length, *keys) + body)
        )

    assert create("Idempotency-Key: a", "Idempotency-Key: a") == [400]
    assert create("Idempotency-Key: a") == [201]
    assert create("Idempotency-Key: caf\udce9") == [400]
    assert create("Idempotency-Key: " + "x" * 201) == create("Idempotency-Key:") == [422]
    assert statuses(ask(web.port, head("GET", "/api/jobs", BEARER, BEARER))) == [401]
    assert statuses(ask(web.port, head("GET", "/api/jobs", BEARER))) == [200]


def test_a_connection_serves_one_request_after_the_other(web: Web) -> None:
    one, last = head("GET", "/healthz"), head("GET", "/healthz", "Connection: close")
    unread = head("POST", "/api/jobs", "Content-Length: 5") + b"12345"

    together = exchange(web.port, [(one * 5 + unread + one + last, 0.0)], ends=False)
    in_parts = exchange(web.port, [(one[:20], 0.1), (one[20:] + one[:5], 0.1), (one[5:], 0.1),
                                   (last, 0.0)], ends=False)  # fmt: skip

    assert statuses(together) == [200] * 5 + [401] + [200] * 2
    assert statuses(in_parts) == [200] * 3


def test_a_request_that_never_comes_does_not_hold_up_the_end(journey: Journey) -> None:
    web = journey.web()
    with socket.create_connection(("127.0.0.1", web.port)) as one:
        one.sendall(b"GET / HTTP/1.1\r\n")
        assert web.ask("GET", "/healthz").status == 200
        # gunicorn itself would give it up after its graceful time-out of 30 s.
        assert web.process.stop(within=20) == 0
    until(lambda: not web.process.is_running, "gunicorn ends")
    stand(journey)
