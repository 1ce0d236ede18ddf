"""A connection on which no wait is endless, also when nobody answers any more.

The server's own time-outs need a server that is reached, and the system's notice only packets that
are not acknowledged: a proxy or a frozen server acknowledges everything. So the client keeps a
limit of its own, a little above the server's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import traceback
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout

from queueapp.connections.bounds import PING_S

Found = TypeVar("Found")


class NoAnswer(psycopg.OperationalError):
    """The database did not answer in time; the connection is closed, what became of it unknown."""


class BoundedConnection(psycopg.Connection[Any]):
    """``limit_s``: the longest wait for the server, None for no limit."""

    limit_s: float | None = None
    # Since when it lies in a pool, by the monotonic clock.
    rests_since: float = 0.0
    # Whether session settings may be sent: behind a transaction pooler they would reach others.
    has_session: bool = True

    @classmethod
    def connect(cls, *given: Any, **parameters: Any) -> BoundedConnection:
        """Connect as psycopg does, and leave nothing behind in vain.

        Its time-out leaves the half-made connection in the frames of the error, for the garbage
        collector to close: in an idle process that may be never, and the server counts it.
        """
        try:
            return super().connect(*given, **parameters)
        except psycopg.Error as error:
            traceback.clear_frames(error.__traceback__)
            raise

    def wait(self, gen: PQGen[Found], interval: float = 0.1, timeout: float | None = None) -> Found:
        """Wait as psycopg does, for ``limit_s`` at most unless the caller has a limit himself."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.limit_s)
        except _WaitTimeout:
            # In the middle of an answer, or before it: nothing else can be asked here.
            self.pgconn.finish()
            raise NoAnswer(f"the database did not answer within {self.limit_s:g} s") from None

    def rollback(self) -> None:
        """Roll back. It takes the server no time: one that does not answer soon never will."""
        before = self.limit_s
        self.limit_s = PING_S if before is None else min(before, PING_S)
        try:
            super().rollback()
        finally:
            self.limit_s = before

    def cut(self) -> None:
        """From another thread: whoever waits for the server gets an error now."""
        with (
            contextlib.suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)
