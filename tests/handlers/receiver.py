"""A small HTTP server in a thread that answers as told and remembers what it was sent."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self

TLS = Path(__file__).parent / "tls"


@dataclass(frozen=True)
class Received:
    """One request as it came in. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """One answer. ``raw`` replaces all of it: bytes as they are, or a function of the socket."""

    status: int = 200
    body: bytes = b"ok"
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | Callable[[socket.socket], None] | None = None


class Receiver:
    """``replies`` maps a path to its answer; any other path answers 200."""

    def __init__(self, certificate: str | None = None) -> None:
        self.received: list[Received] = []
        self.replies: dict[str, Reply] = {}
        own = type("Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), own)
        self.port: int = self._server.server_address[1]
        self.scheme = "https" if certificate else "http"
        if certificate:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(TLS / certificate)
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: ClassVar[Receiver]

    def handle(self) -> None:
        # A client that gives up is part of the tests, not an error of the server.
        with suppress(OSError):
            super().handle()

    def __getattr__(self, name: str) -> Callable[[], None]:
        # http.server looks for do_GET, do_POST and so on: all are answered alike.
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.receiver.received.append(Received(self.command, self.path, headers, body))
        reply = self.receiver.replies.get(self.path, Reply())
        if reply.raw is None:
            self._send(reply)
        else:
            self.close_connection = True
            self._send_raw(reply.raw)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else reply.body)

    def _send_raw(self, raw: bytes | Callable[[socket.socket], None]) -> None:
        if callable(raw):
            raw(self.connection)
        else:
            self.connection.sendall(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output free of access logs."""
