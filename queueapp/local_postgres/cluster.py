"""One PostgreSQL cluster in a folder: made once, started, asked for its database.

``home`` keeps the locks and the password. The data and, if need be, a copy of the binaries lie
there too, unless the one who runs PostgreSQL cannot reach it: then in a private folder elsewhere,
which ``home/elsewhere`` names.
"""

from __future__ import annotations

import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from queueapp.local_postgres import postmaster
from queueapp.local_postgres.binaries import copy_binaries, find_binaries, version_of
from queueapp.local_postgres.errors import LocalPostgresUnavailable
from queueapp.local_postgres.identity import Identity, choose_identity

USER = "queue"
DATABASE = "queue"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "logging_collector": "off",
}
_UNSAFE_BUT_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# What the log says when the start may succeed a moment later: a killed server is not quite gone,
# or somebody took the free port first.
_PORT_TAKEN = "could not bind"
_PASSING = ("is still in use", "lock file", _PORT_TAKEN)
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Cluster:
    """A cluster: where it lies and who runs it."""

    home: Path
    place: Path
    identity: Identity
    durable: bool

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def log(self) -> Path:
        return self.place / "server.log"

    @property
    def password_file(self) -> Path:
        return self.home / "password"

    def ensure_running(self, binaries: Path | None) -> postmaster.Postmaster:
        """Return the running server; make and start the cluster if need be."""
        if self.data.exists() and (running := postmaster.find_answering(self.data)):
            return running
        usable = self._usable(binaries or self._matching_binaries())
        if not self.data.exists():
            self._make(usable)
        self._start(usable)
        started = postmaster.find_answering(self.data)
        if started is None:
            raise LocalPostgresUnavailable(f"PostgreSQL stopped at once.\n{self._log_tail()}")
        return started

    def connect(self, server: postmaster.Postmaster, database: str) -> psycopg.Connection:
        """Connect to ``database`` of the running ``server``, in autocommit."""
        return psycopg.connect(
            host="127.0.0.1",
            port=server.port,
            user=USER,
            password=self.password(),
            dbname=database,
            autocommit=True,
            connect_timeout=10,
        )

    def password(self) -> str:
        try:
            return self.password_file.read_text()
        except FileNotFoundError:
            lost = f"{self.password_file} is missing; remove {self.data} to begin anew."
            raise LocalPostgresUnavailable(lost) from None

    def running_from(self) -> Path:
        """Return the folder of the binaries that the server was started with."""
        command = (self.data / "postmaster.opts").read_text()
        return Path(command.partition(' "')[0]).parent

    def _matching_binaries(self) -> Path:
        """Find binaries of the version that made the data, whatever came first in the search."""
        made_by = self.data / "PG_VERSION"
        return find_binaries(major=int(made_by.read_text()) if made_by.exists() else None)

    def _usable(self, binaries: Path) -> Path:
        """Return ``binaries``, or a copy when the identity cannot run them where they are."""
        if self.identity.can_run(binaries / "postgres"):
            return binaries
        return copy_binaries(binaries, self.place / f"postgresql-{version_of(binaries)}")

    def _make(self, binaries: Path) -> None:
        """Make the cluster beside its place and move it there: half a cluster is never seen."""
        fresh = self.place / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        self.identity.give(fresh, 0o700)
        password = secrets.token_urlsafe(24)
        _write_private(self.password_file, password)
        with tempfile.NamedTemporaryFile("w", dir=self.place) as pwfile:
            pwfile.write(password)
            pwfile.flush()
            self.identity.give(Path(pwfile.name), 0o600)
            self._run(binaries / "initdb", "-D", str(fresh), *self._initdb_options(pwfile.name))
        fresh.rename(self.data)

    def _initdb_options(self, pwfile: str) -> list[str]:
        locale = "C.UTF-8" if sys.platform == "linux" else "C"
        options = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={pwfile}"]
        options += ["-E", "UTF8", f"--locale={locale}"]
        return options if self.durable else [*options, "--no-sync"]

    def _start(self, binaries: Path) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        # The port of last time comes first: processes that outlived the server find it again.
        port = self._last_port()
        while not self._try_start(binaries, port):
            said = self._log_tail()
            passing = any(sign in said for sign in _PASSING)
            if not passing or time.monotonic() > deadline:
                raise LocalPostgresUnavailable(f"PostgreSQL does not start.\n{said}")
            if _PORT_TAKEN in said:
                port = None
            time.sleep(0.1)

    def _last_port(self) -> int | None:
        with suppress(OSError):
            used = re.search(r'"port=(\d+)"', (self.data / "postmaster.opts").read_text())
            return int(used[1]) if used else None
        return None

    def _try_start(self, binaries: Path, port: int | None) -> bool:
        settings = _SETTINGS | {"port": str(port or free_port())}
        if not self.durable:
            settings |= _UNSAFE_BUT_FAST
        words = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self.log.write_text("")
        self.identity.give(self.log, 0o600)
        # pg_ctl and not postgres itself: it leaves the server a child of init, in its own session,
        # so that it outlives us, hears no Ctrl-C, and is reaped when it dies.
        wait = ("-w", "-t", "120")  # the recovery of a killed server may take that long
        where = ("-D", self.data, "-l", self.log)
        return self._logged(binaries / "pg_ctl", *where, *wait, "-o", words, "start") == 0

    def _run(self, *command: str | Path) -> None:
        if self._logged(*command):
            raise LocalPostgresUnavailable(f"{command[0]} failed.\n{self._log_tail()}")

    def _logged(self, *command: str | Path) -> int:
        # Into a file, never a pipe: the server inherits it, and a pipe would never end.
        with self.log.open("a") as log:
            ran = self.identity.run(*command, stdout=log, stderr=subprocess.STDOUT)
        return ran.returncode

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-1500:]


def place_of(home: Path) -> Path:
    """Return the folder that holds the data of ``home``: itself, or the one it points to."""
    pointer = home / "elsewhere"
    place = Path(pointer.read_text()) if pointer.exists() else home
    return place if place.is_dir() else home


def open_cluster(home: Path, *, durable: bool) -> Cluster:
    """Find or prepare the place of the cluster of ``home``. Call it under the start lock."""
    place = place_of(home)
    identity = choose_identity(place / "data")
    if identity.owner and place == home:
        place = _reachable(home, identity)
    return Cluster(home, place, identity, durable)


def _reachable(home: Path, identity: Identity) -> Path:
    """Return ``home`` if ``identity`` gets there, else a new folder that ``home`` points to."""
    home.chmod(0o711)
    if identity.can_enter(home):
        return home
    home.chmod(0o700)
    place = Path(tempfile.mkdtemp(prefix="queueapp-", dir=_lasting_folder()))
    place.chmod(0o711)
    (home / "elsewhere").write_text(str(place))
    return place


def remove_cluster(home: Path) -> None:
    """Remove ``home`` and the data it points to; nothing may run there."""
    for folder in {place_of(home), home}:
        # A backend on its way out may still write a file into a folder that is being emptied.
        for _ in range(5):
            shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(folder)


def create_database(cluster: Cluster, server: postmaster.Postmaster) -> str:
    """Make the application's database unless it exists; return the server's version."""
    with cluster.connect(server, "postgres") as connection:
        known = "SELECT 1 FROM pg_database WHERE datname = %s"
        if not connection.execute(known, (DATABASE,)).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        return str(connection.info.parameter_status("server_version")).split()[0]


def _lasting_folder() -> str:
    """A folder that every user can reach, and that outlives a restart where there is one."""
    lasting = Path("/var/lib")
    return str(lasting) if lasting.is_dir() else tempfile.gettempdir()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def _write_private(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, which nobody else could read at any moment."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
