"""The guarded connection: where it may lead, whose certificate counts, and that it always ends."""

from __future__ import annotations

import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from queueapp.handlers import Policy, configure, outbound
from queueapp.handlers.hosts import parse
from queueapp.handlers.outbound import Answer, HostRefused, Request, Unreachable, exchange
from tests.handlers.receiver import TLS, Receiver, Reply


def send(url: str, *, timeout: float = 5, body: bytes | None = None, **headers: str) -> Answer:
    return exchange(Request("POST", parse(url), headers, body), time.monotonic() + timeout)


def allow(*hosts: str, private: bool = True) -> None:
    configure(Policy(http_allowed_hosts=hosts, http_allow_private=private))


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of one connection that does what no HTTP server would."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    serve(connection)
                except OSError:
                    return

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join()


# Where it may lead


def test_a_host_that_is_not_allowed_is_not_even_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: Any, **__: Any) -> Any:
        raise AssertionError("asked the name server")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    allow("example.com")
    with pytest.raises(HostRefused, match=r"elsewhere\.test is not among QUEUE_HTTP_ALLOWED_HOSTS"):
        send("http://elsewhere.test/?token=secret")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_private_address_is_refused_unless_allowed(receiver: Receiver, host: str) -> None:
    allow(host, private=False)
    with pytest.raises(HostRefused, match="QUEUE_HTTP_ALLOW_PRIVATE"):
        send(receiver.url(host=host))
    assert receiver.received == []
    allow(host)
    assert send(receiver.url(host=host)).status == 200


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1"])
def test_odd_spellings_of_an_address_are_checked_as_what_they_mean(
    receiver: Receiver, host: str
) -> None:
    allow(host, private=False)
    with pytest.raises((HostRefused, Unreachable)):
        send(receiver.url(host=host))
    assert receiver.received == []


def test_the_checked_address_is_connected_to_whatever_the_name_says_later(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: only the first answer counts, and it is asked for once."""
    real, asked = socket.getaddrinfo, []

    def resolve(host: str, *rest: Any, **options: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "127.0.0.9", *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    allow("hooks.test")
    assert send(receiver.url(host="hooks.test")).status == 200
    assert asked == ["hooks.test"]
    assert receiver.received[0].headers["host"] == f"hooks.test:{receiver.port}"


def test_of_several_addresses_only_the_allowed_ones_are_tried(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(host: str, port: int, **_: Any) -> Any:
        tcp = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*tcp, ("127.0.0.1", port)), (*tcp, ("192.168.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    allow("hooks.test", private=False)
    with pytest.raises(HostRefused):
        send(receiver.url(host="hooks.test"))
    assert receiver.received == []


def test_the_next_address_is_tried_when_one_refuses(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(host: str, port: int, **_: Any) -> Any:
        tcp = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*tcp, ("127.0.0.2", port)), (*tcp, ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    allow("hooks.test")
    assert send(receiver.url(host="hooks.test")).status == 200


def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    allow("127.0.0.1")
    assert send(receiver.url()).status == 200


# Certificates


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the tests' own authority be among those that the system trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))
    outbound._tls.cache_clear()
    yield
    outbound._tls.cache_clear()


@pytest.mark.usefixtures("trusted")
def test_https_is_spoken_with_the_right_name() -> None:
    allow("localhost")
    with Receiver("localhost.pem") as secure:
        secure.replies["/"] = Reply(body=b"x" * 100_000)
        answer = send(secure.url(host="localhost"), body=b"y" * 200_000)
        assert (answer.status, len(answer.body), answer.truncated) == (200, 8192, True)
        assert len(secure.received[0].body) == 200_000


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("certificate", "host"), [("elsewhere.pem", "localhost"), ("localhost.pem", "127.0.0.1")]
)
def test_a_certificate_of_another_name_is_refused(certificate: str, host: str) -> None:
    allow(host)
    with Receiver(certificate) as secure:
        with pytest.raises(Unreachable, match="certificate refused"):
            send(secure.url(host=host))
        assert secure.received == []


def test_an_unknown_authority_is_refused() -> None:
    allow("localhost")
    with Receiver("localhost.pem") as secure:
        with pytest.raises(Unreachable, match="certificate refused"):
            send(secure.url(host="localhost"))
        assert secure.received == []


# Every end but an answer


def test_nobody_listening_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    allow("127.0.0.1")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1: Connection refused"):
        send(f"http://127.0.0.1:{port}/")


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    allow("nowhere.invalid")
    with pytest.raises(Unreachable, match=r"nowhere\.invalid"):
        send("http://nowhere.invalid/")


@pytest.mark.parametrize(
    "said",
    [b"", b"hello\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000],
)
def test_an_answer_that_is_not_http_is_unreachable(receiver: Receiver, said: bytes) -> None:
    secret = "hunter2"
    path = f"/{secret}?token={secret}"
    receiver.replies[path] = Reply(raw=said)
    allow("127.0.0.1")
    with pytest.raises(Unreachable) as failure:
        send(receiver.url(path), Authorization=f"Bearer {secret}")
    assert secret not in "".join(traceback.format_exception(failure.value))


def test_a_server_that_says_nothing_ends_with_the_deadline(receiver: Receiver) -> None:
    allow("127.0.0.1")
    with (
        raw_server(lambda connection: time.sleep(0.5)) as url,
        pytest.raises(Unreachable, match="did not answer in time"),
    ):
        send(url, timeout=0.2)


def drip(head: bytes) -> Callable[[socket.socket], None]:
    """Answer with ``head``, then a byte every 20 ms: no read fails, and together they never end."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(500):
            connection.sendall(b"x")
            time.sleep(0.02)

    return serve


def test_headers_that_drip_end_with_the_deadline() -> None:
    allow("127.0.0.1")
    begun = time.monotonic()
    with raw_server(drip(b"HTTP/1.1 200 OK\r\nX-Long: ")) as url, pytest.raises(Unreachable):
        send(url, timeout=0.3)
    assert time.monotonic() - begun < 5


def test_a_body_that_drips_is_cut_at_the_deadline_and_the_status_counts() -> None:
    allow("127.0.0.1")
    begun = time.monotonic()
    with raw_server(drip(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        answer = send(url, timeout=0.3)
    assert answer.status == 200
    assert answer.truncated
    assert answer.body.startswith(b"xx")
    assert time.monotonic() - begun < 5


def test_a_receiver_that_does_not_read_ends_with_the_deadline() -> None:
    allow("127.0.0.1")
    with (
        raw_server(lambda connection: time.sleep(0.6)) as url,
        pytest.raises(Unreachable, match="did not answer in time"),
    ):
        send(url, timeout=0.3, body=b"x" * 50_000_000)


def test_a_tls_handshake_that_stalls_ends_with_the_deadline() -> None:
    allow("127.0.0.1")
    with (
        raw_server(lambda connection: time.sleep(0.6)) as url,
        pytest.raises(Unreachable, match="did not answer in time"),
    ):
        send(url.replace("http:", "https:"), timeout=0.3)


def test_a_body_that_breaks_off_is_cut_and_the_status_counts(receiver: Receiver) -> None:
    allow("127.0.0.1")
    for head in (b"Content-Length: 100", b"Transfer-Encoding: chunked"):
        receiver.replies["/"] = Reply(raw=b"HTTP/1.1 201 Created\r\n" + head + b"\r\n\r\n5\r\nabc")
        answer = send(receiver.url())
        assert (answer.status, answer.truncated) == (201, True)


def test_a_server_that_keeps_the_connection_open_does_not_delay_the_end() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        connection.settimeout(5)
        connection.recv(1)

    allow("127.0.0.1")
    begun = time.monotonic()
    with raw_server(serve) as url:
        assert send(url).body == b"ok"
    assert time.monotonic() - begun < 3


def test_an_early_refusal_is_heard_while_the_body_is_still_sent() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    allow("127.0.0.1")
    with raw_server(serve) as url:
        assert send(url, body=b"x" * 3_000_000).status == 413
