"""A real PostgreSQL under a folder of the checkout, for every command without DATABASE_URL.

The first command starts it, others share it, the last to leave stops it. It listens on 127.0.0.1
alone, on a free port, and asks for a password that only its owner can read. A leaf: it imports
nothing else of the application.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import psycopg

from queueapp.local_postgres.binaries import find_binaries, version_of
from queueapp.local_postgres.cluster import (
    DATABASE,
    USER,
    Cluster,
    create_database,
    free_port,
    open_cluster,
    place_of,
    remove_cluster,
)
from queueapp.local_postgres.errors import LocalPostgresUnavailable
from queueapp.local_postgres.postmaster import Postmaster, find, until

__all__ = [
    "LocalPostgres",
    "LocalPostgresUnavailable",
    "find_binaries",
    "free_port",
    "is_of",
    "remove_abandoned",
    "start",
    "version_of",
]

_END_S = 60.0
# From making the lock to holding it.
BEGINS_WITHIN_S = 60.0


class LocalPostgres:
    """A share in the running server. Close it when done: the last share stops the server."""

    def __init__(self, cluster: Cluster, server: Postmaster, version: str, share: int) -> None:
        self.version = version
        self.url = (
            f"postgresql+psycopg://{USER}:{cluster.password()}@127.0.0.1:{server.port}/{DATABASE}"
        )
        self.where = f"PostgreSQL {version} of {cluster.running_from()}, data in {cluster.data}"
        self._cluster = cluster
        self._share: int | None = share

    def close(self) -> None:
        """Give the share up; stop the server if nobody else holds one."""
        if self._share is not None:
            with _locked(self._cluster.home / "start.lock"):
                self._give_up()

    def restart(self, number: int) -> None:
        """End the server by a signal, even by SIGKILL, and start it anew on its old port."""
        data = self._cluster.data
        if server := find(data):
            os.kill(server.pid, number)
            if not until(lambda: find(data) is None, _END_S):
                raise LocalPostgresUnavailable(f"PostgreSQL does not end by signal {number}.")
        with _locked(self._cluster.home / "start.lock"):
            self._cluster.ensure_running(None)

    def remove(self) -> None:
        """Close, and remove the cluster with its data. For throw-away ones, held by nobody else."""
        with _locked(self._cluster.home / "start.lock"):
            self._give_up()
            remove_cluster(self._cluster.home)

    def _give_up(self) -> None:
        share, self._share = self._share, None
        if share is not None:
            _leave(self._cluster.home, share)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start(home: Path, *, durable: bool = True, binaries: Path | None = None) -> LocalPostgres:
    """Start or join the PostgreSQL of ``home``; take a share in it.

    ``durable=False`` gives up crash safety for speed, for data that will be thrown away.
    ``binaries`` overrules the search. Raises LocalPostgresUnavailable.
    """
    home = home.resolve()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(home / "start.lock"):
            return _join(home, durable=durable, binaries=binaries)
    except (OSError, psycopg.Error) as error:
        raise LocalPostgresUnavailable(f"No PostgreSQL can run in {home}: {error}.") from error


def is_of(home: Path, url: str) -> bool:
    """Whether ``url`` leads to the PostgreSQL of ``home``: nobody else has its password."""
    try:
        kept = (home / "password").read_text()
    except OSError:
        return False
    return bool(kept) and urlsplit(url).password == kept


def remove_abandoned(home: Path) -> None:
    """Stop and remove the throw-away cluster of ``home``, unless somebody holds a share in it."""
    if not (home / "start.lock").exists():
        return  # about to be started, or just removed
    with suppress(OSError), _locked(home / "start.lock", mode="r"):
        begun = (home / "users.lock").exists()
        # Who has made the lock and not locked it yet is about to begin.
        if _last(home) if begun else _age_s(home / "start.lock") > BEGINS_WITHIN_S:
            if server := find(place_of(home) / "data"):
                server.stop()
            remove_cluster(home)


def _age_s(file: Path) -> float:
    return time.time() - file.stat().st_mtime


def _join(home: Path, *, durable: bool, binaries: Path | None) -> LocalPostgres:
    share = os.open(home / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(share, fcntl.LOCK_SH)
        cluster = open_cluster(home, durable=durable)
        server = cluster.ensure_running(binaries)
        return LocalPostgres(cluster, server, create_database(cluster, server), share)
    except BaseException:
        _leave(home, share)
        raise


def _leave(home: Path, share: int) -> None:
    """Give ``share`` up, and stop the server if that was the last one."""
    # Closed, not unlocked: a forked child that inherited the share still holds it.
    os.close(share)
    if _last(home) and (server := find(place_of(home) / "data")):
        server.stop()


def _last(home: Path) -> bool:
    """Whether nobody holds a share. The start lock, held by the caller, keeps newcomers out."""
    with (home / "users.lock").open("r+") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def _locked(path: Path, *, mode: str = "a") -> Iterator[None]:
    with path.open(mode) as lock:
        path.chmod(0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
