"""Requests that wait for something to happen: few at a time, for each of them keeps a thread."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flask import Flask, current_app, request

from queueapp.errors import TooManyWaiters

LONGEST_WAIT_S = 20
# How often a waiting request looks: a statement or two each time.
LOOK_EVERY_S = 0.25
RETRY_AFTER = 2
# As the Procfile has it.
_THREADS = 4


def init_app(app: Flask) -> None:
    """Count the places to wait in this process."""
    places = app.extensions["queue_settings"].max_waiters or most_waiters(os.environ)
    app.extensions["queue_waiters"] = threading.BoundedSemaphore(places)


def most_waiters(environ: Mapping[str, str]) -> int:
    """A quarter of the threads, one at least."""
    threads = environ.get("WEB_THREADS", "")
    return max((int(threads) if threads.isdecimal() else _THREADS) // 4, 1)


@contextmanager
def a_place_to_wait() -> Iterator[None]:
    """Take one of the places. Raises TooManyWaiters when there is none."""
    places: threading.Semaphore = current_app.extensions["queue_waiters"]
    if not places.acquire(blocking=False):
        raise TooManyWaiters(
            "as many requests wait or export as may (QUEUE_MAX_WAITERS): try again",
            retry_after=RETRY_AFTER,
        )
    try:
        yield
    finally:
        places.release()


def looks(seconds: float) -> Iterator[None]:
    """Yield each time it is worth a look, until so much time has passed or the caller is gone."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(LOOK_EVERY_S, left))
        if _caller_is_gone():
            return
        yield


def hurry_the_caller(seconds: float) -> None:
    """End this answer when a piece of it takes the caller longer than ``seconds`` to receive.

    Servers wait for ever; the next request of the connection begins without this again.
    """
    own = _own_socket()
    if own is not None:
        own.settimeout(seconds)


def _caller_is_gone() -> bool:
    """Whether the connection was closed at the other end, as far as the server lets us see."""
    own = _own_socket()
    return own is not None and _is_closed(own)


def _own_socket() -> socket.socket | None:
    for name in ("gunicorn.socket", "werkzeug.socket"):
        own = request.environ.get(name)
        if isinstance(own, socket.socket):
            return own
    return None


def _is_closed(connection: socket.socket) -> bool:
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):
        return True
