"""PostgreSQL and Redis of one run: on loopback, on free ports, gone when the run ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg import sql

from bench import processes
from bench.errors import Missing
from queueapp import local_postgres

# Beyond initdb's defaults; fsync and synchronous_commit stay on.
SETTINGS = {"shared_buffers": "512MB", "max_connections": "200"}
_LARGE = 64 * 1024 * 1024


class Postgres:
    """A throw-away cluster that keeps its promises on a crash: durable, like a real one."""

    def __init__(self, scratch: Path, binaries: Path | None) -> None:
        for left in scratch.glob("postgres-*"):
            local_postgres.remove_abandoned(left)  # of a run that was killed
        home = Path(tempfile.mkdtemp(prefix="postgres-", dir=scratch))
        self.binaries = binaries or local_postgres.find_binaries()
        self._share = local_postgres.start(home, binaries=self.binaries)
        self.version = self._share.version
        try:
            for name, value in SETTINGS.items():
                setting = sql.Identifier(name)
                self.say(sql.SQL("ALTER SYSTEM SET {} = {}").format(setting, sql.Literal(value)))
            self._share.restart(signal.SIGINT)
            self.pid = int(str(self.ask("SELECT pg_read_file('postmaster.pid')")).split()[0])
        except BaseException:
            self.stop()
            raise

    def url(self, database: str = "postgres") -> str:
        """The address of ``database`` as libpq takes it."""
        return self._share.url.replace("+psycopg", "").rpartition("/")[0] + f"/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """A connection in autocommit."""
        return psycopg.connect(self.url(database), autocommit=True)

    def say(self, statement: sql.SQL | sql.Composed | str, database: str = "postgres") -> None:
        """Run one statement."""
        with self.connect(database) as connection:
            connection.execute(statement.encode() if isinstance(statement, str) else statement)

    def ask(self, query: str, database: str = "postgres") -> Any:
        """The first value of the first row."""
        with self.connect(database) as connection:
            row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None

    def make(self, database: str, template: str = "template0") -> None:
        """Make ``database`` anew, a copy of ``template``.

        A large one is quicker copied file by file, which costs two checkpoints.
        """
        self.drop(database)
        size = int(self.ask(f"SELECT pg_database_size('{template}')"))
        strategy = sql.SQL("file_copy" if size > _LARGE else "wal_log")
        names = sql.Identifier(database), sql.Identifier(template)
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY {}")
        self.say(make.format(*names, strategy))

    def drop(self, database: str) -> None:
        """Remove ``database``, whoever uses it."""
        name = sql.Identifier(database)
        self.say(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def exists(self, database: str) -> bool:
        with self.connect() as connection:
            known = "SELECT 1 FROM pg_database WHERE datname = %s"
            return connection.execute(known, (database,)).fetchone() is not None

    def stop(self) -> None:
        """Stop it and remove its data."""
        self._share.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Redis:
    """Redis with an append-only file, flushed every second: what it may lose on a crash."""

    SETTINGS = "appendonly yes, appendfsync everysec, no snapshots"

    def __init__(self, scratch: Path) -> None:
        program = shutil.which("redis-server")
        if not program:
            raise Missing("no redis-server here (Debian: apt-get install redis-server)")
        for left in scratch.glob("redis-*"):
            _remove_abandoned_redis(left)
        self._home = Path(tempfile.mkdtemp(prefix="redis-", dir=scratch))
        self.port = local_postgres.free_port()
        options = {
            "port": str(self.port), "bind": "127.0.0.1", "appendonly": "yes",
            "appendfsync": "everysec", "save": "", "dir": str(self._home),
            "pidfile": str(self._home / "redis.pid"),
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        log = self._home / "redis.log"
        self._process = processes.start([program, *words], {}, cwd=self._home, log=log)
        self.pid = self._process.pid
        try:
            self._wait()
            self.version = str(self.ask("INFO", "server")).partition("redis_version:")[2].split()[0]
        except BaseException:
            self.stop()
            raise

    def ask(self, *words: str) -> str | int:
        """One command, its answer a number or a text: all that the bench needs of the protocol."""
        parts = [f"*{len(words)}", *(line for word in words for line in (f"${len(word)}", word))]
        with socket.create_connection(("127.0.0.1", self.port), 10) as asked:
            asked.sendall("\r\n".join([*parts, ""]).encode())
            answer = asked.makefile("rb")
            line = answer.readline().decode().strip()
            if line.startswith(":"):
                return int(line[1:])
            if line.startswith("$"):
                return answer.read(int(line[1:])).decode()
            if line.startswith("-"):
                raise RuntimeError(f"Redis: {line[1:]}")
            return line[1:]

    def stop(self) -> None:
        """Stop it and remove its data."""
        processes.stop([self._process])
        shutil.rmtree(self._home, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self._process.is_running():
            with suppress(OSError):
                if self.ask("PING") == "PONG":
                    return
            time.sleep(0.05)
        raise Missing(f"redis-server does not start: {self._process.said()}")


def _remove_abandoned_redis(home: Path) -> None:
    """Stop the Redis of a run that was killed: the process that works in ``home``, no other."""
    with suppress(OSError, ValueError):
        pid = int((home / "redis.pid").read_text())
        if Path(f"/proc/{pid}/cwd").samefile(home):
            os.kill(pid, signal.SIGTERM)
    shutil.rmtree(home, ignore_errors=True)
