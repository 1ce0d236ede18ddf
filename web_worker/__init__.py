"""The worker of gunicorn that serves the application, kept from slow and from malformed requests.

Threads, as gunicorn's own ``gthread``, but for four things. A request is given to a thread when its
head is whole: until then it waits in the loop, for so long. The rest of it has to come, and the
answer has to be taken, at some speed. A connection is left without anybody waiting for its end. And
what is no HTTP request is answered as the API answers, with nothing of it in the log.

Loaded by gunicorn's master, which must not load the application: it would stay what it was then.
"""

from __future__ import annotations

import selectors
import socket
import time
import uuid
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn.glogging import Logger
from gunicorn.http.errors import LimitRequestHeaders
from gunicorn.workers.gthread import TConn, ThreadWorker

from web_worker.reading import LONGEST_HEAD, TooSlow, Unreader
from web_worker.refusals import place_of, refusal, status_of

# For the head of a request, from its first byte to its last.
HEAD_S = 10.0
# For one piece of an answer: most have one.
TAKE_S = 120.0
# A refused sender gets to know why before its connection is cut, but is not listened to for long.
LINGER_S = 2.0
MOST_LINGERING = 1000
MOST_PASSED_OVER = 64 * 1024 * 1024
# What is left of a body that nobody has read is waited for so long.
DRAIN_S = 0.05
_LOOK_EVERY_S = 0.25


class Connection(TConn):
    """A connection that is left to the loop when it ends."""

    def __init__(self, worker: WebWorker, *args: Any) -> None:
        super().__init__(worker.cfg, *args)
        self._worker = worker

    def init(self) -> None:
        """Prepare it for its first request."""
        if not self.initialized:
            super().init()
            self.parser.unreader = Unreader(self.sock)

    def close(self, graceful: bool = False) -> None:
        """End it; gracefully: let the other side read what was sent."""
        if graceful:
            self._worker.leave(self.sock)
        else:
            super().close()


class WebLogger(Logger):
    """Logs requests without their queries, and paths as they came: no line can be forged."""

    def atoms(self, resp: Any, req: Any, environ: Any, request_time: Any) -> dict[str, Any]:
        """What a line can be made of."""
        made: dict[str, Any] = super().atoms(resp, req, environ, request_time)
        return {**made, "U": environ["RAW_URI"].partition("?")[0]}


class WebWorker(ThreadWorker):
    """See the module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Whose heads are on their way, and who may still read an answer: until when, how much.
        self._heads: dict[Connection, None] = {}
        self._lingering: dict[socket.socket, list[float]] = {}
        self._look_at = 0.0

    # In the loop

    def accept(self, listener: socket.socket) -> None:
        """Take a connection."""
        try:
            sock, address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        self.nr_conns += 1
        self.enqueue_req(Connection(self, sock, address, listener.getsockname()))

    def enqueue_req(self, conn: Connection) -> None:
        """Give the next request of a connection to a thread, when its head has come."""
        if self.cfg.is_ssl:
            super().enqueue_req(conn)
            return
        conn.init()
        conn.parser.unreader.begin()
        conn.sock.setblocking(False)
        conn.timeout = time.monotonic() + HEAD_S
        self._heads[conn] = None
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._read_head, conn))
        self._read_head(conn)

    def _read_head(self, conn: Connection, _sock: object = None) -> None:
        unreader = conn.parser.unreader
        if not unreader.holds_head():
            try:
                data = conn.sock.recv(LONGEST_HEAD)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._forget(conn)
                self.nr_conns -= 1
                conn.close()
                return
            unreader.add(data)
        if unreader.holds_head():
            self._forget(conn)
            super().enqueue_req(conn)
        elif unreader.holds_too_much():
            self._refuse(conn, LimitRequestHeaders("no end"))

    def _refuse(self, conn: Connection, why: Exception) -> None:
        self._forget(conn)
        self.nr_conns -= 1
        # Whoever has said nothing yet is told nothing.
        if conn.parser.unreader.buf.getvalue():
            self.handle_error(None, conn.sock, conn.client, why)
        conn.close(graceful=True)

    def _forget(self, conn: Connection) -> None:
        del self._heads[conn]
        self.poller.unregister(conn.sock)

    def murder_pending(self) -> None:
        """End what has taken too long; runs in each turn of the loop."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY_S
        for conn in [conn for conn in self._heads if conn.timeout <= now]:
            self._refuse(conn, TooSlow())
        for sock in [sock for sock, (until, _) in self._lingering.items() if until <= now]:
            self._cut(sock)

    def _cap_keepalive(self, deadline: float) -> None:
        """Wait no longer for requests that may never come: the worker is to end."""
        super()._cap_keepalive(deadline)
        for conn in self._heads:
            conn.timeout = min(conn.timeout, deadline)

    def leave(self, sock: socket.socket) -> None:
        """Send no more, and cut the connection when the other side has had time to read."""
        try:
            sock.shutdown(socket.SHUT_WR)
            sock.setblocking(False)
        except OSError:
            sock.close()
            return
        if len(self._lingering) >= MOST_LINGERING:
            sock.close()
            return
        self._lingering[sock] = [time.monotonic() + LINGER_S, MOST_PASSED_OVER]
        self.poller.register(sock, selectors.EVENT_READ, self._pass_over)

    def _pass_over(self, sock: socket.socket) -> None:
        """What is thrown away unread would cut the connection before the answer is read."""
        try:
            data = sock.recv(256 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._lingering[sock][1] -= len(data)
        if not data or self._lingering[sock][1] <= 0:
            self._cut(sock)

    def _cut(self, sock: socket.socket) -> None:
        del self._lingering[sock]
        self.poller.unregister(sock)
        sock.close()

    # In a thread

    def handle_request(self, req: Any, conn: Connection) -> bool:
        """Answer one request."""
        if isinstance(conn.parser.unreader, Unreader):
            conn.parser.unreader.has_head = True
        conn.sock.settimeout(TAKE_S)
        try:
            return bool(super().handle_request(req, conn))
        except TimeoutError:
            self.log.warning("an answer was not taken within %g s: cut off", TAKE_S)
            return False

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        """Whether the connection goes on: no thread waits for a body that nobody has read."""
        if not keepalive:
            return False
        return bool(conn.parser.finish_body(deadline=time.monotonic() + DRAIN_S))

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer what the application has never seen, or could not answer."""
        status, request_id = status_of(exc), uuid.uuid4().hex
        said = (type(exc).__name__, addr[0] if addr else "-", request_id)
        if status == 500:
            self.log.error("%s, asked from %s, request %s\n%s", *said, place_of(exc))
        else:
            self.log.warning("%s from %s is refused, request %s", *said)
        with suppress(OSError):
            client.settimeout(1.0)
            client.sendall(refusal(status, request_id))
