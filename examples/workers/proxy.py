"""What stands between a worker and its queue here: it hears all that is said, and can break it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


def ask(
    url: str,
    method: str,
    path: str,
    body: bytes | None,
    token: str | None,
    connections: set[http.client.HTTPConnection] | None = None,
) -> tuple[int, bytes]:
    """Send one request; status and body of the answer. It is in ``connections`` meanwhile."""
    at = urlsplit(url)
    kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
    connection = kind(at.netloc, timeout=60)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    with contextlib.closing(connection):
        connection.connect()
        if connections is not None:
            connections.add(connection)
        connection.request(method, at.path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


class Proxy(ThreadingHTTPServer):
    """Between worker and queue: notes what is said, and breaks it when asked to."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.queue = url
        self.said: list[tuple[str, Any, int, Any]] = []  # path, request, status, answer
        # Paths whose requests do not arrive, and those whose answers do not.
        self.deaf: set[str] = set()
        self.mute: set[str] = set()
        self.connections: set[http.client.HTTPConnection] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def hang_up(self) -> None:
        """What the worker had asked for it cannot hear any more: the queue shall know."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a worker that was killed in the middle of a request."""

    def outcomes(self, path: str) -> list[str]:
        """What the queue has answered to each item of the requests to ``path``."""
        told = [answer for where, _, _, answer in self.said if where == path]
        return [one["outcome"] for answer in told for one in (answer or {}).get("items", [])]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.removeprefix("/api/leases")
        status, body = 503, b"{}"
        if path not in self.server.deaf:
            bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
            status, body = ask(
                self.server.queue, "POST", self.path, sent, bearer, self.server.connections
            )
            self.server.said.append((path, _json(sent), status, _json(body)))
        if path in self.server.mute:
            status, body = 503, b"{}"
        with contextlib.suppress(OSError):  # the worker may have been killed meanwhile
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: what was said is in ``said``."""


def _json(text: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return None
