"""What every tab reads alike is read once for all of them, and kept for two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from flask import Flask, current_app

from queueapp.errors import DatabaseUnavailable

T = TypeVar("T")
KEPT_S = 2.0
WAITS_S = 2.0


class Kept:
    """The last value by name, in one process. One reader at a time finds a new one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: dict[str, tuple[float, Any]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, read: Callable[[], T]) -> T:
        """The value that is kept, or a new one; an older one while somebody is long at reading it.

        What ``read`` raises is kept by nobody. Raises DatabaseUnavailable without any value.
        """
        with self._lock:
            mine = self._locks.setdefault(name, threading.Lock())
        if not mine.acquire(timeout=WAITS_S):
            return self._last(name)
        try:
            at, value = self._values.get(name, (float("-inf"), None))
            if time.monotonic() - at >= self._seconds:
                value = read()
                self._values[name] = (time.monotonic(), value)
            return value  # type: ignore[no-any-return]
        finally:
            mine.release()

    def _last(self, name: str) -> Any:
        """What was read last: the reader waits for a database that all threads would wait for."""
        try:
            return self._values[name][1]
        except KeyError:
            raise DatabaseUnavailable(
                "the database is slow to answer; another tab waits for the same", retry_after=5
            ) from None

    def forget(self) -> None:
        """Something was done: whoever looks next sees it."""
        self._values.clear()


def init_app(app: Flask) -> None:
    """Begin with nothing. Tests look at what they have just made."""
    app.extensions["queue_kept"] = Kept(0.0 if app.testing else KEPT_S)


def kept() -> Kept:
    """The application's."""
    found: Kept = current_app.extensions["queue_kept"]
    return found
