"""A small receiver of webhooks, as moody as real ones: now and then it fails, or takes its time."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Of a hundred calls: 85 are well, 5 meet a fault, 2 a limit, 7 are slow, 1 is not wanted at all.
MOODS = {"well": 85, "fault": 5, "limit": 2, "slow": 7, "gone": 1}
_STATUS = {"well": 200, "fault": 503, "limit": 429, "slow": 200, "gone": 410}


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def handle(self) -> None:
        """Serve one client; one that went away, as a stopped worker does, is no news."""
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        """Read the delivery and answer it by mood."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        [mood] = random.choices(list(MOODS), list(MOODS.values()))  # noqa: S311
        if mood == "slow":
            time.sleep(1.5)
        self._answer(_STATUS[mood], f"{mood}\n".encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status in (429, 503):
            self.send_header("Retry-After", "2")
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Say nothing: the console shows each delivery."""


class Receiver:
    """The receiver on 127.0.0.1, in a thread of its own.

    ``port`` is taken if it is free: webhooks left over from the last demo then still arrive.
    """

    def __init__(self, port: int = 0) -> None:
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError):
            self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
