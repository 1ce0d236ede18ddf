"""Refuse at once while nobody can answer: one thread finds out, the others need not wait with it.

With every thread of a web process waiting for a connection, requests behind them would wait for
several such waits in turn, however short each of them is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import psycopg

from queueapp.connections.bounded import NoAnswer

# A refusal that comes sooner than this keeps nobody waiting.
SLOW_S = 1.0


class Fuse:
    """Blown by an attempt to connect that waited in vain, mended by one that succeeds."""

    def __init__(self) -> None:
        self._blown = False
        self._probe = threading.Lock()

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Guard one attempt to connect. Raises NoAnswer when another is finding out already."""
        blown = self._blown
        if blown and not self._probe.acquire(blocking=False):
            raise NoAnswer("the database did not answer a moment ago")
        began = time.monotonic()
        try:
            yield
            self._blown = False
        except psycopg.OperationalError:
            self._blown = self._blown or time.monotonic() - began > SLOW_S
            raise
        finally:
            if blown:
                self._probe.release()
