"""A TCP proxy before the database that cuts, stalls, refuses, and goes on.

A stalled proxy still acknowledges every packet: the system sees nothing wrong with a connection
whose peer has gone silent. ``network.py`` swallows the packets themselves.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

from sqlalchemy.engine import make_url

_ABORT = struct.pack("ii", 1, 0)
# As the server would have it: whoever has vanished is let go of, some seconds later.
_ALIVE = {
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 5,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 2,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 3,
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): 10_000,
}


class Proxy:
    """Stands between the application and the server at ``url``; ``url`` of its own leads here."""

    def __init__(self, url: str, at: str = "127.0.0.1") -> None:
        target = make_url(url)
        self._target = (target.host or "127.0.0.1", target.port or 5432)
        self._listener = socket.create_server((at, 0))
        host, port = self._listener.getsockname()
        self.url = target.set(host=host, port=port).render_as_string(hide_password=False)
        # When somebody connected, by the monotonic clock.
        self.accepted: list[float] = []
        # When somebody asked something: each round trip is one.
        self.asked: list[float] = []
        self._open: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self._refuses = self._closed = False
        self._spawn(self._accept)

    # What a test does

    def stall(self) -> None:
        """Forward nothing more, but keep every connection, and take new ones."""
        self._flows.clear()

    def resume(self) -> None:
        """Forward again, what has waited first."""
        self._flows.set()

    def refuse(self) -> None:
        """Break every connection and each new one, as a server that is down does."""
        self._refuses = True
        self.cut()

    def admit(self) -> None:
        """Take connections again."""
        self._refuses = False

    def cut(self) -> None:
        """Break every connection that there is."""
        for line in list(self._open):
            self._abort(line)

    def close(self) -> None:
        """End it, and every connection through it."""
        self._closed = True
        self._flows.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    # How it does it

    def _spawn(self, what: object, *arguments: object) -> None:
        threading.Thread(target=what, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        while not self._closed:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            self.accepted.append(time.monotonic())
            if self._refuses:
                self._abort(line)
            else:
                self._spawn(self._serve, line)

    def _serve(self, line: socket.socket) -> None:
        self._open.add(line)
        for (level, option), value in _ALIVE.items():
            line.setsockopt(level, option, value)
        try:
            onward = socket.create_connection(self._target, timeout=10)
        except OSError:
            self._abort(line)
            return
        onward.settimeout(None)
        self._open.add(onward)
        self._spawn(self._forward, onward, line, [])
        self._forward(line, onward, self.asked)

    def _forward(self, source: socket.socket, sink: socket.socket, at: list[float]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                at.append(time.monotonic())
                self._flows.wait()
                sink.sendall(data)
        # An end is news as well, and travels no faster.
        self._flows.wait()
        for end in (source, sink):
            self._abort(end)

    def _abort(self, line: socket.socket) -> None:
        self._open.discard(line)
        with contextlib.suppress(OSError):
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            # Another thread may wait in it: closing alone would not wake that.
            line.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            line.close()
