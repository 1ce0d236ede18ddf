"""The local PostgreSQL, with real servers, real processes and real signals."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psycopg
import pytest

from queueapp.local_postgres import (
    LocalPostgresUnavailable,
    binaries,
    identity,
    postmaster,
    remove_abandoned,
    start,
)
from queueapp.local_postgres.cluster import place_of

COMMAND = """
import sys
from pathlib import Path
from queueapp.local_postgres import start
with start(Path(sys.argv[1]), durable=False) as postgres:
    print(postgres.url, flush=True)
    sys.stdin.read()
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "instance"
    yield home
    if server := postmaster.find(data_of(home)):
        server.stop()
    if (place := place_of(home)) != home:
        shutil.rmtree(place)


def data_of(home: Path) -> Path:
    """The data of ``home``: elsewhere, when root runs the tests without user namespaces."""
    return place_of(home) / "data"


@contextmanager
def command_using(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run another command that uses the server of ``home`` until its input ends."""
    words = [sys.executable, "-c", COMMAND, str(home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as command:
        yield command
        command.kill()


def line_of(stream: IO[str] | None) -> str:
    assert stream
    return stream.readline().strip()


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def server_of(home: Path) -> postmaster.Postmaster:
    server = postmaster.find(data_of(home))
    assert server, f"no server runs in {home}"
    return server


def same_major(version: str, place: Path) -> bool:
    return version.split(".")[:1] == binaries.version_of(place).split(".")[:1]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_start_makes_a_database_named_queue_that_only_its_owner_can_use(home: Path) -> None:
    with start(home, durable=False) as postgres, connect(postgres.url) as connection:
        info = connection.info
        listens = connection.execute("SHOW listen_addresses").fetchone()
        encrypted = connection.execute("SHOW password_encryption").fetchone()

        assert (info.dbname, info.host, listens) == ("queue", "127.0.0.1", ("127.0.0.1",))
        assert encrypted == ("scram-sha-256",)
        assert not mode_of(home) & 0o066
        assert mode_of(home / "password") == 0o600
        assert postgres.version in postgres.where
        assert str(data_of(home)) in postgres.where
        with pytest.raises(psycopg.OperationalError, match="password"):
            connect(postgres.url.replace((home / "password").read_text(), "guess"))


def test_the_last_to_leave_stops_the_server(home: Path) -> None:
    first = start(home, durable=False)
    second = start(home, durable=False)

    assert first.url == second.url
    first.close()
    first.close()
    assert postmaster.find(data_of(home))
    second.close()
    assert not postmaster.find(data_of(home))


def test_data_and_port_are_kept_from_one_start_to_the_next(home: Path) -> None:
    with start(home, durable=False) as postgres, connect(postgres.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        url = postgres.url

    with start(home, durable=False) as postgres, connect(postgres.url) as connection:
        assert postgres.url == url
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


def test_another_port_is_taken_when_somebody_took_the_last_one(home: Path) -> None:
    with start(home, durable=False) as postgres:
        url, port = postgres.url, server_of(home).port

    with socket.create_server(("127.0.0.1", port)), start(home, durable=False) as postgres:
        assert postgres.url != url
        connect(postgres.url).close()


@pytest.mark.slow
def test_commands_started_at_once_share_one_server(home: Path) -> None:
    with (
        command_using(home) as one,
        command_using(home) as two,
        command_using(home) as three,
    ):
        commands = (one, two, three)
        urls = {line_of(command.stdout) for command in commands}
        assert len(urls) == 1
        for command in commands:
            server_of(home)
            command.communicate(timeout=30)

    assert not postmaster.find(data_of(home))


def test_a_server_left_by_a_killed_command_is_used_again_and_then_stopped(home: Path) -> None:
    with command_using(home) as command:
        url = line_of(command.stdout)
        command.send_signal(signal.SIGKILL)
        command.wait(timeout=10)
    left = server_of(home)

    with start(home, durable=False) as postgres:
        assert postgres.url == url
        assert server_of(home) == left
    assert not postmaster.find(data_of(home))


@pytest.mark.slow
def test_a_cluster_is_abandoned_once_its_last_user_was_killed(home: Path) -> None:
    with command_using(home) as command:
        line_of(command.stdout)
        server = server_of(home)

        remove_abandoned(home)
        assert server.answers()

        command.send_signal(signal.SIGKILL)
        command.wait(timeout=10)
        remove_abandoned(home)
    assert not server.answers()
    assert not home.exists()


def test_a_killed_server_is_recovered_under_the_same_address(home: Path) -> None:
    with start(home) as first, connect(first.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        killed = server_of(home)
        os.kill(killed.pid, signal.SIGKILL)

        with start(home) as second, connect(second.url) as again:
            assert second.url == first.url
            assert server_of(home).pid != killed.pid
            assert again.execute("SELECT n FROM kept").fetchone() == (7,)


@pytest.mark.slow
def test_a_pid_file_naming_another_process_does_not_stop_the_start(home: Path) -> None:
    start(home, durable=False).close()
    stale = [str(os.getpid()), str(data_of(home)), "1700000000", "1", "", "127.0.0.1", "", ""]
    (data_of(home) / "postmaster.pid").write_text("\n".join(stale))

    with start(home, durable=False) as postgres, connect(postgres.url):
        assert server_of(home).pid != os.getpid()


@pytest.mark.slow
def test_a_half_made_cluster_is_made_anew(home: Path) -> None:
    start(home, durable=False).close()
    half = data_of(home).rename(place_of(home) / "data.new")
    (half / "global" / "pg_control").unlink()

    with start(home, durable=False) as postgres, connect(postgres.url):
        assert not half.exists()


@pytest.mark.slow
def test_a_child_forked_from_the_holder_keeps_the_server(home: Path) -> None:
    forking = COMMAND.replace(
        "    print(", "    import os\n    if os.fork(): os._exit(postgres.close() or 0)\n    print("
    )
    words = [sys.executable, "-c", forking, str(home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as parent:
        line_of(parent.stdout)
        parent.wait(timeout=30)
        server_of(home)
        assert parent.stdin
        parent.stdin.close()
        assert postmaster.until(lambda: postmaster.find(data_of(home)) is None, 30)


def test_the_callers_postgres_settings_do_not_reach_the_server(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")

    with start(home, durable=False) as postgres, connect(postgres.url) as connection:
        assert connection.execute("SHOW lc_messages").fetchone() == ("C.UTF-8",)


def test_data_is_served_by_binaries_of_the_version_that_made_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = binaries.find_binaries()
    system = {
        binaries.version_of(place): place for place in Path("/usr/lib/postgresql").glob("*/bin")
    }
    others = [place for version, place in system.items() if not same_major(version, first)]
    if not others:
        pytest.skip("only one version of PostgreSQL is here")
    other = others[0]
    start(home, durable=False, binaries=other).close()

    with start(home, durable=False) as postgres:
        assert postgres.version == binaries.version_of(other)


def test_data_of_a_version_that_is_not_here_is_refused_with_the_ways_out(home: Path) -> None:
    start(home, durable=False).close()
    (data_of(home) / "PG_VERSION").write_text("99\n")

    with pytest.raises(LocalPostgresUnavailable, match=r"No PostgreSQL 99 .*\n.*DATABASE_URL"):
        start(home, durable=False)


def test_a_wrong_pg_bindir_is_refused_by_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_BINDIR", "/nowhere/bin")

    with pytest.raises(LocalPostgresUnavailable, match=r"PG_BINDIR=/nowhere/bin .*\n.*apt-get"):
        start(home)


def test_a_lost_password_is_refused_with_the_way_to_begin_anew(home: Path) -> None:
    start(home, durable=False).close()
    (home / "password").unlink()

    with pytest.raises(LocalPostgresUnavailable, match="password is missing"):
        start(home, durable=False)


@pytest.fixture
def closed_binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Binaries under a folder that only root can enter, as a wheel in /root is."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    copy = binaries.copy_binaries(binaries.find_binaries(), closed / "wheel")
    if not binaries.version_of(copy):
        pytest.skip("the system's PostgreSQL cannot be moved; it is never under a closed folder")
    monkeypatch.setenv("PG_BINDIR", str(copy))
    return copy


@as_root
def test_root_without_namespaces_runs_it_as_somebody_else_outside_a_closed_home(
    home: Path, closed_binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_namespaces_allowed", lambda: False)

    with start(home, durable=False) as postgres, connect(postgres.url):
        place = place_of(home)
        assert place != home
        assert str(place) in postgres.where
        assert str(closed_binaries) not in postgres.where
        assert (place / "data").stat().st_uid != 0
        assert mode_of(place / "data") == 0o700
        copies = list(place.glob("postgresql-*/**/*"))
        assert copies
        for path in (place, *copies):
            assert path.stat().st_uid == 0
            assert not mode_of(path) & 0o022, f"others may write {path}"
    with start(home, durable=False) as again:
        assert str(place) in again.where
    again.remove()
    assert not place.exists()


@as_root
def test_root_serves_the_data_of_an_ordinary_user_as_that_user(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(identity, "_namespaces_allowed", lambda: False)
        start(home, durable=False).close()
        owner = data_of(home).stat().st_uid

    with start(home, durable=False):
        assert Path(f"/proc/{server_of(home).pid}").stat().st_uid == owner != 0


@as_root
def test_data_of_root_is_not_started_as_somebody_else(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "data").mkdir(parents=True)
    monkeypatch.setattr(identity, "_namespaces_allowed", lambda: False)

    with pytest.raises(LocalPostgresUnavailable, match="remove it to begin anew"):
        start(home, durable=False)
