"""What every tab reads alike is read once for all of them, and kept for two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from flask import Flask, current_app

T = TypeVar("T")
KEPT_S = 2.0


class Kept:
    """The last value by name, in one process. One reader at a time finds a new one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: dict[str, tuple[float, Any]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, read: Callable[[], T]) -> T:
        """The value that is kept, or a new one. What ``read`` raises is kept by nobody."""
        with self._lock:
            mine = self._locks.setdefault(name, threading.Lock())
        with mine:
            at, value = self._values.get(name, (float("-inf"), None))
            if time.monotonic() - at >= self._seconds:
                value = read()
                self._values[name] = (time.monotonic(), value)
            return value  # type: ignore[no-any-return]

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
