"""A receiver of webhooks on a bad day: it fails a third of its calls, and some never end."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self


class Server(ThreadingHTTPServer):
    # Hanging calls must not keep the test from ending, a burst of calls must find room.
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256


class BadDay:
    """Remembers the Idempotency-Key of every call, by path, and what was answered."""

    def __init__(self) -> None:
        self.calls: dict[str, list[str | None]] = defaultdict(list)
        self.delivered: dict[str, int] = defaultdict(int)
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._count = 0
        own = type("Handler", (_Handler,), {"day": self})
        self._server = Server(("127.0.0.1", 0), own)
        self.port: int = self._server.server_address[1]

    def arrives(self, path: str, key: str | None) -> str:
        """Note a call and say what becomes of it: every third fails, each in one of four ways."""
        with self._lock:
            self._count += 1
            self.calls[path].append(key)
            bad = self._count % 3 == 0
            fate = _FATES[self._count // 3 % len(_FATES)] if bad else "deliver"
            self.delivered[path] += fate == "deliver"
            return fate

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


_FATES = ("500", "503", "hang", "500", "cut", "429", "500", "500")


class _Handler(BaseHTTPRequestHandler):
    day: ClassVar[BadDay]

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fate = self.day.arrives(self.path, self.headers.get("Idempotency-Key"))
        if fate == "hang":
            self.day.over.wait(60)
        elif fate == "cut":
            self.close_connection = True
        else:
            self.send_response(200 if fate == "deliver" else int(fate))
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output free of access logs."""
