"""Bytes to a port, as they are, and whatever comes back."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from tests.live.processes import Process

# A body need not end its line, so they may begin anywhere; none of our bodies has one like it.
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) [A-Z]")
_MOST = 32 * 1024 * 1024

# A piece to send, and how many seconds to wait behind it.
Piece = tuple[bytes, float]


def exchange(
    port: int, pieces: Iterable[Piece], *, ends: bool = True, within: float = 40.0
) -> bytes:
    """Send the pieces and read until the other side closes, or sends nothing for long.

    ``ends``: say that nothing more will come. A connection that is cut ends the answer.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=within) as connection:
        with contextlib.suppress(OSError):
            for piece, pause in pieces:
                connection.sendall(piece)
                if pause:
                    time.sleep(pause)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    """What comes until the end."""
    found: list[bytes] = []
    with contextlib.suppress(OSError):
        while sum(map(len, found)) < _MOST and (data := connection.recv(256 * 1024)):
            found.append(data)
    return b"".join(found)


def ask(port: int, request: bytes, **how: bool) -> bytes:
    """Send one request whole."""
    return exchange(port, [(request, 0.0)], **how)


def statuses(answers: bytes) -> list[int]:
    """The status of each answer, in their order."""
    return [int(one) for one in _STATUS.findall(answers)]


def head(method: str, path: str, *headers: str) -> bytes:
    """The head of a request to this machine."""
    lines = (f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", "")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


def children_of(process: Process) -> list[int]:
    """The processes that it has started: gunicorn's workers."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def memory_of(pids: Iterable[int]) -> int:
    """The bytes of memory that the processes have, together."""
    total = 0
    for pid in pids:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        assert found, f"{pid} has ended"
        total += int(found[1]) * 1024
    return total
