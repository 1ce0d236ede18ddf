"""Read a request from a client, who must not be slower than agreed."""

from __future__ import annotations

import socket
import time

from gunicorn.http.unreader import SocketUnreader

# What a head may take of memory before its end; gunicorn's own limits are beyond what is in use.
LONGEST_HEAD = 64 * 1024
# Longer than the longest first line that gunicorn is told to take.
LONGEST_LINE = 8192
# So long at first, then as long as what has come takes at this speed.
GRACE_S = 10.0
SLOWEST = 32 * 1024


class TooSlow(Exception):
    """The head of a request does not come to its end."""


class Unreader(SocketUnreader):
    """Reads from the client, who must not be slower than agreed; our own time does not count."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.begin()

    def begin(self) -> None:
        """Another request comes."""
        self.has_head = False
        self._waited, self._got = 0.0, 0

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Read what has come. Raises TooSlow in the head, TimeoutError behind it."""
        left = GRACE_S + self._got / SLOWEST - self._waited
        before, began = self.sock.gettimeout(), time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self.sock.settimeout(left if before is None else min(left, before))
            data: bytes = super().chunk(size_hint)
        except TimeoutError:
            if self.has_head:
                raise
            raise TooSlow from None
        finally:
            self._waited += time.monotonic() - began
            self.sock.settimeout(before)
        self._got += len(data)
        return data

    def holds_head(self) -> bool:
        """Whether the parser will not have to wait for more: for the head, or to refuse it."""
        head = self.buf.getvalue()
        # Refused as soon as they are seen: lines that end without a carriage return, and a first
        # line that is too long.
        has_bare_end = head.count(b"\n") != head.count(b"\r\n")
        has_long_line = len(head) > LONGEST_LINE and b"\r\n" not in head[:LONGEST_LINE]
        return b"\r\n\r\n" in head or has_bare_end or has_long_line

    def holds_too_much(self) -> bool:
        """Whether what has come is longer than any head."""
        return len(self.buf.getbuffer()) >= LONGEST_HEAD

    def add(self, data: bytes) -> None:
        """Put what has come behind what is there."""
        self.buf.seek(0, 2)
        self.buf.write(data)
