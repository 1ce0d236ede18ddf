"""Requests as nobody should send them, made up from a seed: case n of a seed is always the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.live.raw import Piece

SECRET = "hunter2-never-in-a-log"
_JSON = "Content-Type: application/json"
_PATHS = (
    "/api/jobs", "/api/jobs/bulk", "/api/jobs/bulk?atomic=false", "/api/leases",
    "/api/leases/renew", "/api/leases/settle", "/api/leases/progress", "/api/operations",
    "/api/jobs/1/cancel", "/api/jobs/1/reschedule", "/login", "/jobs/bulk",
)  # fmt: skip
_READ = (
    "/api/jobs", "/api/jobs/1", "/api/jobs/%00", "/api/jobs/%ff", "/api//jobs", "/api/../api/jobs",
    "/api/events", "/api/kinds", "/api/kinds/%ed%a0%80", "/api/stats", "/", "/jobs", "/events",
    "/static/../wsgi.py", "/static/app.css", "/login?next=//x", "/nothing",
    "/api/jobs?kind=%00", "/api/jobs?limit=" + "9" * 400, "/api/jobs?" + "a=1&" * 900,
    "/api/jobs?status=%ff%fe", "/api/jobs?before=-1", "/api/jobs/1/why", "/api/jobs/1/events",
    f"/api/jobs?idempotency_key={SECRET}",
)  # fmt: skip
_GOOD = (
    {"kind": "demo.echo", "payload": {"message": SECRET}},
    {"kind": "demo.echo", "payload": {"password": SECRET, "a": [1, 2.5, None, {"b": "é"}]},
     "priority": 3, "idempotency_key": "k"},
    [{"kind": "demo.echo"}, {"kind": "demo.sleep", "payload": {"seconds": 0}}],
    {"items": [{"id": 1, "token": "0b2d0ac6-0a5c-4c4e-9c2f-3a4d5e6f7a8b", "verb": "fail"}]},
    {"verb": "retry", "filter": {"status": ["failed"]}, "reason": SECRET},
    {"delay": 5, "reason": SECRET},
)  # fmt: skip
_BROKEN = (
    b"", b"\xff", b"{", b"[" * 50_000, b'{"a":' * 20_000, b'"\\ud800"', b'{"kind": NaN}',
    b"1" * 9000,
    b'{"kind":"demo.echo","payload":{"message":"\\u0000"}}', b"\xef\xbb\xbf{}", b"null", b"{}{}",
    b'{"kind":"demo.echo","kind":"demo.echo"}', b"\x00" * 500, "é".encode("utf-16"), b"'",
    b'{"kind":"demo.echo","payload":{"message":1e400}}', b'{"kind":"demo.ech\xff"}',
)  # fmt: skip
_HEADERS = (
    b"Host: evil.example", b"Host", b": x", b"A" * 9000 + b": x", b"X: " + b"y" * 9000, b"X: \x00",
    b"X: caf\xe9", b"X:\x7f", b" folded: x", b"X-Y: a\r\n b", b"Authorization: Bearer caf\xe9",
    b"Authorization: Bearer " + SECRET.encode(), b"Authorization: Basic ", b"Authorization:",
    b"Expect: 100-continue", b"Expect: the worst", b"Content-Length: -1", b"Content-Length: x",
    b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: 99999999999999999999",
    b"Content-Length: \xb2", b"Content-Length: 0", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: x", b"Content-Type: application/json",
    b"Content-Type: application/json; charset=\xff", b"Content-Type: multipart/form-data",
    b"Content-Encoding: gzip", b"Idempotency-Key: a\r\nIdempotency-Key: b",
    b"Idempotency-Key: \xff",
    b"If-None-Match: W/\"x\", \"", b"Range: bytes=0-1,5-", b"X-Request-Id: \x1b[31m",
    b"X-Forwarded-For: 1.2.3.4", b"X-Forwarded-Proto: \xff", b"Sec-Fetch-Site: cross-site",
    b"Origin: null", b"Cookie: session=" + SECRET.encode(), b"Cookie: \xff=\xfe; ;;",
    b"Connection: close, keep-alive, upgrade", b"Upgrade: h2c", b"HX-Request: true",
    b"Accept-Encoding: \xff", b"X_Under: 1", b"TE: trailers", b"Transfer_Encoding: chunked",
)  # fmt: skip
_LINES = (
    b"", b"\x00", b"GET", b"GET /", b"GET / HTTP/9.9", b"GET / HTTP/1.1 x", b"get / HTTP/1.1",
    b"GET  / HTTP/1.1", b"GET http://other/api/jobs HTTP/1.1", b"GET * HTTP/1.1",
    b"OPTIONS * HTTP/1.1", b"CONNECT localhost:1 HTTP/1.1", b"TRACE / HTTP/1.1",
    b"GET /\xff HTTP/1.1",
    b"GET /" + b"a" * 9000 + b" HTTP/1.1", b"PRI * HTTP/2.0", b"FOO /api/jobs HTTP/1.1",
    b"G" * 30_000, b"GET /?" + SECRET.encode() + b" x HTTP/1.1", b"GET /api/jobs HTTP/1.0",
    b"POST /api/jobs HTTP/1.1", b"DELETE /api/jobs/1 HTTP/1.1", b"HEAD /api/jobs HTTP/1.1",
)  # fmt: skip
_CHUNKS = (
    b"5\r\n{}   \r\n0\r\n\r\n", b"zz\r\n{}\r\n", b"-1\r\n", b"ffffffffffffffffff\r\n{}", b"2\r\n{}",
    b"2\r\n{}xx0\r\n\r\n", b"2;a=b\r\n{}\r\n0\r\n\r\n", b"2;\x00\r\n{}\r\n0\r\n\r\n", b"0\r\n\r\n",
    b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n", b"2\r\n{}\r\n0\r\nX: \xff\r\n\r\n",
    b"2\n{}\n0\n\n",
    b"1" * 9000 + b"\r\n", b"100000\r\n" + b" " * 0x100000 + b"\r\n0\r\n\r\n", b"",
)  # fmt: skip
_TLS_HELLO = bytes.fromhex("16030100a5010000a10303") + bytes(range(150))


@dataclass(frozen=True)
class Case:
    """What one client sends, and whether it then says that this is all."""

    name: str
    pieces: list[Piece]
    ends: bool

    def __str__(self) -> str:
        sent = [(piece[:300], pause) for piece, pause in self.pieces[:8]]
        return f"{self.name}, ends: {self.ends}, {len(self.pieces)} pieces: {sent}"


def case(seed: int, number: int) -> Case:
    """Case ``number`` of ``seed``."""
    chance = random.Random(f"{seed}-{number}")
    make = chance.choice(_MAKERS)
    # Whoever does not end waits for the server to: those take long, so they are few.
    return Case(f"{seed}-{number} {make.__name__}", make(chance), chance.random() > 0.02)


def _request(chance: random.Random, body: bytes, *more: bytes) -> bytes:
    line = f"POST {chance.choice(_PATHS)} HTTP/1.1".encode()
    length = f"Content-Length: {len(body)}".encode()
    kinds = (_JSON, _JSON, _JSON, "Content-Type: application/x-ndjson", "Content-Type: x")
    kind = chance.choice(kinds).encode()
    return b"\r\n".join((line, b"Host: localhost", kind, length, *more, b"", body))


def _mutated(chance: random.Random) -> bytes:
    body = bytearray(json.dumps(chance.choice(_GOOD)).encode())
    for _ in range(chance.randrange(6)):
        at = chance.randrange(len(body) + 1)
        match chance.randrange(4):
            case 0:
                body[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del body[at : at + chance.randrange(8)]
            case 2:
                body[at:at] = body[: chance.randrange(40)]
            case _:
                body[at:at] = chance.choice(
                    (b'"', b"\\", b"{", b"]", b",", b"\x00", b"\xff", b"9e9")
                )
    return bytes(body)


def bad_json(chance: random.Random) -> list[Piece]:
    body = chance.choice(_BROKEN) if chance.random() < 0.4 else _mutated(chance)
    return [(_request(chance, body), 0.0)]


def huge_body(chance: random.Random) -> list[Piece]:
    size = chance.choice((1024 * 1024 + 1, 5_000_000, 17_000_000))
    filling = chance.choice((b" ", b"[", b'{"a":1}\n', b"9", b"\xff"))
    head = _request(chance, b"").replace(b"Content-Length: 0", b"Content-Length: %d" % size)
    piece = (filling * (256 * 1024 // len(filling)), 0.0)
    return [(head, 0.0), *[piece] * (size // (256 * 1024) + 1)]


def slow_body(chance: random.Random) -> list[Piece]:
    whole = _request(chance, _mutated(chance))
    start = chance.randrange(len(whole))
    rest = [(whole[at : at + 1], 0.05) for at in range(start, min(start + 20, len(whole)))]
    return [(whole[:start], 0.0), *rest]


def odd_headers(chance: random.Random) -> list[Piece]:
    count = 120 if chance.random() < 0.1 else chance.randrange(1, 5)
    return [(_request(chance, _mutated(chance), *chance.choices(_HEADERS, k=count)), 0.0)]


def odd_line(chance: random.Random) -> list[Piece]:
    line = chance.choice(_LINES)
    end = chance.choice((b"\r\n\r\n", b"\r\nHost: localhost\r\n\r\n", b"\n\n", b"\r\n", b""))
    return [(line + end, 0.0)]


def odd_address(chance: random.Random) -> list[Piece]:
    method = chance.choice(("GET", "GET", "HEAD", "OPTIONS", "PUT", "POST"))
    line = f"{method} {chance.choice(_READ)} HTTP/1.1".encode()
    headers = chance.choices(_HEADERS, k=chance.randrange(2))
    return [(b"\r\n".join((line, b"Host: localhost", *headers, b"", b"")), 0.0)]


def pipelined(chance: random.Random) -> list[Piece]:
    makers = (bad_json, odd_address, odd_headers, odd_chunks)
    made = [chance.choice(makers)(chance) for _ in range(chance.randrange(2, 12))]
    return [(b"".join(piece for one in made for piece, _ in one), 0.0)]


def false_length(chance: random.Random) -> list[Piece]:
    body = _mutated(chance)
    length = max(0, len(body) + chance.choice((-5, -1, 1, 3, 500, 10_000_000)))
    right, wrong = b"Content-Length: %d" % len(body), b"Content-Length: %d" % length
    return [(_request(chance, body).replace(right, wrong), 0.0)]


def odd_chunks(chance: random.Random) -> list[Piece]:
    line = f"POST {chance.choice(_PATHS)} HTTP/1.1".encode()
    lines = (line, b"Host: localhost", _JSON.encode(), b"Transfer-Encoding: chunked", b"", b"")
    return [(b"\r\n".join(lines) + chance.choice(_CHUNKS), 0.0)]


def noise(chance: random.Random) -> list[Piece]:
    if chance.random() < 0.2:
        return [(_TLS_HELLO, 0.0)]
    return [(chance.randbytes(chance.randrange(1, 40_000)), 0.0)]


_MAKERS: tuple[Callable[[random.Random], list[Piece]], ...] = (
    bad_json, bad_json, bad_json, huge_body, slow_body, odd_headers, odd_headers, odd_line,
    odd_address, odd_address, pipelined, false_length, odd_chunks, odd_chunks, noise,
)  # fmt: skip
