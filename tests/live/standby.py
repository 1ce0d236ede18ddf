"""A second server that follows a first one, in step with it, until it is told to lead."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from queueapp.local_postgres.cluster import open_cluster
from tests.live.cluster import Cluster
from tests.live.processes import until

_NAME = "standby"


def follow(primary: Cluster, home: Path) -> Cluster:
    """Make a standby of ``primary`` in ``home`` and wait until commits wait for it."""
    home.mkdir(mode=0o700)
    _copy(primary, home)
    standby = Cluster(home)
    _wait_for_it(primary)
    return standby


def rejoin(old: Cluster, primary: Cluster) -> None:
    """Make a server that led a standby of its successor, at its old address.

    What it had is lost: it may have written what nobody else has.
    """
    if old.answers():
        old.end(signal.SIGINT)
    _copy(primary, old.home)
    old.start_again()
    _wait_for_it(primary)


def _copy(primary: Cluster, home: Path) -> None:
    origin, copy = (open_cluster(each, durable=True) for each in (primary.home, home))
    fresh = copy.place / "data.new"
    fresh.mkdir()
    copy.identity.give(fresh, 0o700)
    made = copy.identity.run(
        origin.running_from() / "pg_basebackup",
        *("--pgdata", str(fresh), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
        *("--dbname", f"{primary.plain_url}?application_name={_NAME}"),
        capture_output=True,
    )
    assert made.returncode == 0, made.stderr
    options = copy.data / "postmaster.opts"
    if options.exists():
        # By these it finds its old port.
        shutil.copy(options, fresh)
        copy.identity.give(fresh / options.name, 0o600)
        shutil.rmtree(copy.data)
    fresh.rename(copy.data)
    copy.password_file.write_text(origin.password())
    copy.password_file.chmod(0o600)


def _wait_for_it(primary: Cluster) -> None:
    primary.say(f"ALTER SYSTEM SET synchronous_standby_names = '{_NAME}'")
    primary.say("SELECT pg_reload_conf()")
    in_step = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    with psycopg.connect(primary.plain_url, autocommit=True) as connection:
        until(lambda: connection.execute(in_step).fetchone() == (1,), "the standby is in step")


def lose(server: Cluster) -> None:
    """End a server as a machine that dies does: nobody on it writes a byte more."""
    pid = server.pid()
    backends = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (pid, *map(int, backends)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    until(lambda: not server.answers(), "it is gone")


def promote(standby: Cluster) -> None:
    """Make a standby the server that takes writes, and one that waits for no standby itself."""
    standby.say("SELECT pg_promote()")


def both(*servers: Cluster) -> str:
    """The address that names all of them, as psql takes it."""
    first = make_url(servers[0].plain_url)
    places = ",".join(
        f"{url.host}:{url.port}" for url in (make_url(each.plain_url) for each in servers)
    )
    login = f"{first.username}:{first.password}"
    return f"postgresql://{login}@{places}/{first.database}?target_session_attrs=read-write"
