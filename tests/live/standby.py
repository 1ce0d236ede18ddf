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
    """Make a standby of ``primary`` in ``home`` and wait until commits wait for it.

    What was in ``home`` is lost: a server that was killed while it led may have written what nobody
    else has. It keeps its port.
    """
    origin = open_cluster(primary.home, durable=True)
    home.mkdir(mode=0o700, exist_ok=True)
    copy = open_cluster(home, durable=True)
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
    old_options = copy.data / "postmaster.opts"
    if old_options.exists():
        shutil.copy(old_options, fresh)
        copy.identity.give(fresh / old_options.name, 0o600)
        shutil.rmtree(copy.data)
    fresh.rename(copy.data)
    copy.password_file.write_text(origin.password())
    copy.password_file.chmod(0o600)
    standby = Cluster(home)
    _wait_for_it(primary)
    return standby


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
