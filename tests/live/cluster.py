"""A PostgreSQL of the test's own, which it may stop, kill and start again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg

from queueapp import local_postgres
from tests.live.processes import until


class Cluster:
    """A server of the test's own. Durable: what was committed must survive kill -9."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._share = local_postgres.start(home, binaries=_binaries())
        self.url = self._share.url

    def pid(self) -> int:
        with psycopg.connect(self.plain_url) as connection:
            row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
        assert row
        return int(row[0].split()[0])

    @property
    def plain_url(self) -> str:
        """The address as psycopg takes it."""
        return self.url.replace("+psycopg", "")

    def say(self, statement: str) -> None:
        """Run one statement as the owner of the server, outside a transaction."""
        with psycopg.connect(self.plain_url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def end(self, number: int) -> None:
        """Send the server a signal and wait until it is gone."""
        pid = self.pid()
        os.kill(pid, number)
        until(lambda: not Path(f"/proc/{pid}").exists() or not self.answers(), "it is gone")

    def start_again(self) -> None:
        """Start it on its old port."""
        self._share.close()
        self._share = local_postgres.start(self.home, binaries=_binaries())
        assert self._share.url == self.url

    def restart(self, number: int = signal.SIGINT) -> None:
        """End it by a signal (SIGINT fast, SIGQUIT immediate, SIGKILL a crash) and start it."""
        self.end(number)
        self.start_again()

    def answers(self) -> bool:
        try:
            psycopg.connect(self.plain_url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def remove(self) -> None:
        self._share.remove()


def _binaries() -> Path | None:
    named = os.environ.get("TEST_PG_BINDIR")
    return Path(named) if named else None
