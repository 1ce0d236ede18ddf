"""The running server of one data directory: finding it, asking it, stopping it.

A pid file proves nothing: its process may be gone, a zombie, or another program with the same
number after a restart of the machine.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from queueapp.local_postgres.errors import LocalPostgresUnavailable

_SSL_REQUEST = bytes.fromhex("0000000804d2162f")
# Crash recovery and a last checkpoint may take a while on a slow disk.
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Postmaster:
    """A live server process and the port it was told to use."""

    pid: int
    port: int
    data: Path

    def answers(self) -> bool:
        """Whether it speaks PostgreSQL: a dying one still accepts connections, but says nothing."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as asked:
            asked.sendall(_SSL_REQUEST)
            return asked.recv(1) in (b"N", b"S")
        return False

    def stop(self) -> None:
        """Shut down fast, by signal (pg_ctl refuses root); return when the process is gone."""
        for number in (signal.SIGINT, signal.SIGQUIT):
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            if until(lambda: find(self.data) is None, _PATIENCE_S / 2):
                return
        raise LocalPostgresUnavailable(f"PostgreSQL (process {self.pid}) does not stop.")


def find(data: Path) -> Postmaster | None:
    """Return the live server of ``data``, whether or not it answers yet."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        found = Postmaster(pid=int(lines[0]), port=int(lines[3]), data=data)
    except (OSError, ValueError, IndexError):
        return None
    return found if _serves(found.pid, data) else None


def find_answering(data: Path) -> Postmaster | None:
    """Return the server of ``data`` once it answers, or None when there is none.

    Waits for one that is starting, recovering or shutting down. Clears away the pid file of a dead
    server whose number still exists, since PostgreSQL would refuse to start over it.
    """
    until(lambda: (found := find(data)) is None or found.answers(), _PATIENCE_S)
    found = find(data)
    if found is None:
        # Safe: PostgreSQL also refuses while a process of the old server uses its shared memory.
        (data / "postmaster.pid").unlink(missing_ok=True)
    elif not found.answers():
        raise LocalPostgresUnavailable(
            f"PostgreSQL (process {found.pid}) holds {data} but does not answer."
        )
    return found


def until(true: Callable[[], bool], patience_s: float) -> bool:
    """Wait until ``true()``; return whether it came true in time."""
    deadline = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _serves(pid: int, data: Path) -> bool:
    """Whether process ``pid`` is the server of ``data``: it works in that folder."""
    if Path("/proc/self/cwd").exists():
        # Neither a zombie nor somebody else's process has a readable working directory.
        with suppress(OSError):
            return Path(f"/proc/{pid}/cwd").samefile(data)
        return False
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False
