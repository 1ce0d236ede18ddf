"""PgBouncer in transaction mode before a server of the test's, which may stop and start it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from queueapp.local_postgres import free_port
from queueapp.local_postgres.identity import choose_identity
from tests.live import needs
from tests.live.processes import until

# Fewer connections to the server than the processes of a test have to the pooler.
POOL = 5

_SETTINGS = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {at}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 200
server_login_retry = 1
"""


class Pooler:
    """PgBouncer on loopback, for the role and the password of ``url``."""

    def __init__(self, url: str, folder: Path) -> None:
        self._program = needs.program("pgbouncer")
        self._folder = folder
        folder.mkdir()
        # It refuses to be root, as PostgreSQL does.
        self._identity = choose_identity(folder / "none")
        server = make_url(url)
        self._port = free_port()
        self.url = server.set(host="127.0.0.1", port=self._port).render_as_string(False)
        users = self._write("users.txt", f'"{server.username}" "{server.password}"\n')
        self._settings = self._write(
            "pgbouncer.ini",
            _SETTINGS.format(
                host=server.host, port=server.port, at=self._port, users=users, pool=POOL
            ),
        )
        self._log = folder / "pgbouncer.log"
        self._process = self._start()

    def _write(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.touch(0o600)
        path.write_text(text)
        self._identity.give(path, 0o600)
        return path

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [self._program, "--quiet", self._settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._identity.options,
            )
        until(lambda: process.poll() is not None or self.answers(), "the pooler answers")
        assert process.poll() is None, self.said()
        return process

    def answers(self) -> bool:
        plain = self.url.replace("+psycopg", "")
        try:
            psycopg.connect(plain, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def said(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it, with every connection through it."""
        self._process.send_signal(number)
        self._process.wait(10)

    def start_again(self) -> None:
        self._process = self._start()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
