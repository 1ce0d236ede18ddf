"""One ``flask work`` on one SQLite file: a second one is told so, and does not start.

The lock is the kernel's, on a file beside the database: a process that is killed leaves none. The
child of a supervisor holds the same lock, and goes on holding it should the supervisor be killed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url

from queueapp.errors import SettingError

# How a child learns which of its descriptors the lock is.
VARIABLE = "QUEUE_WORKER_LOCK"


@contextmanager
def alone_on(url: str) -> Iterator[int]:
    """Be the only worker on this file until the end. Raises SettingError when there is one.

    The lock's descriptor, for a child to inherit.
    """
    database = str(make_url(url).database)
    path = Path(f"{database}.worker-lock")
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingError(
                f"another flask work (process {_read(path)}) has {database}:"
                " SQLite takes one worker process; with PostgreSQL there may be many",
                setting="DATABASE_URL",
            ) from None
        path.write_text(str(os.getpid()))
        yield lock.fileno()


def inherit(environment: MutableMapping[str, str]) -> None:
    """In the child: keep the lock from what it starts itself, which may outlive it."""
    if number := environment.pop(VARIABLE, None):
        os.set_inheritable(int(number), False)


def _read(path: Path) -> str:
    return path.read_text().strip() or "unknown"
