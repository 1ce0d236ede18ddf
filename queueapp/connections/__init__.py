"""Where the database is, and how each role of process connects to it.

Without ``DATABASE_URL`` the address is that of a local PostgreSQL, started at the first connection
and held for the life of the process; in production that is an error instead.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Flask
from psycopg import IsolationLevel
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url

from queueapp import local_postgres
from queueapp.config import Settings, needs_database_url
from queueapp.connections.bounded import BoundedConnection
from queueapp.connections.bounds import PING_S, POOL_S, Bounds, Role, bounds_of
from queueapp.connections.fuse import Fuse
from queueapp.connections.instants import read_any_instant
from queueapp.connections.numbers import read_any_number
from queueapp.connections.ping import look_before_asking
from queueapp.errors import SettingError
from queueapp.jobs.connection_names import connection_name

log = logging.getLogger(__name__)

# Of a worker process: the pump's, the lease keeper's, housekeeping's.
WORKER_LINES = 3

# What a server answers to a write while it is a standby, or was told to take none.
READ_ONLY = "25006"

# Every statement is written for READ COMMITTED, whatever the role's default is. Instants inside
# JSON come in the session's zone; one zone makes them easy to read. The driver reads
# instants in no style but ISO.
SESSION = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres"
    " -c default_transaction_isolation=read\\ committed"
)

# The driver sends these of the environment after our options, so that they would win.
_ENVIRONMENT = ("PGTZ", "PGDATESTYLE")
_OURS = "SELECT set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO', false)"

# Worker statements are tiny and hot: compiling them costs more than it can save, and so does
# planning them anew each time (2.4 ms a turn; left to choose, PostgreSQL does so whenever a single
# slot is free). A plan made while the table was empty must not become a sequential scan when it is
# full, nor a bitmap scan of leases long ended: it reads all before the first, and never marks dead
# index entries as such.
WORKER_SESSION = (
    f"{SESSION} -c jit=off -c enable_seqscan=off -c enable_bitmapscan=off"
    " -c plan_cache_mode=force_generic_plan"
)

# Uses of a statement before it is prepared. What handlers leave is discarded with their session.
_PREPARE_AFTER = {Role.WEB: 5, Role.WORK: 1, Role.COMMAND: 5, Role.HANDLER: None}

# The server too lets go of who has vanished, and of what that one holds locked.
SERVER_KEEPALIVE = (
    "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
    " -c tcp_user_timeout=60s"
)


class Address:
    """The database address of one application, resolved once."""

    def __init__(self, settings: Settings, home: Path) -> None:
        self.settings = settings
        self._home = home
        self._lock = threading.Lock()
        self._local: local_postgres.LocalPostgres | None = None
        # What this process does with the application's own engine: see ``take_role``.
        self.role = Role.WEB
        # The worker that this process is, whose name its sessions bear.
        self.worker = ""
        self.fuse = Fuse()

    @property
    def is_local(self) -> bool:
        """Whether this process starts (or reuses) the PostgreSQL under ``instance/``."""
        return not self.settings.database_url

    @property
    def has_local_server(self) -> bool:
        """Whether this process holds the PostgreSQL under ``instance/``: it has run."""
        return self._local is not None

    @property
    def is_of_this_folder(self) -> bool:
        """Whether its server is the one under ``instance/``: a demo tells its processes where."""
        return self.is_local or local_postgres.is_of(self._home, self.settings.database_url)

    @property
    def engine_url(self) -> str:
        """What engines are made for: PostgreSQL wherever it is, or the SQLite file."""
        return self.settings.database_url if self.settings.is_sqlite else "postgresql+psycopg://"

    @property
    def url(self) -> str:
        """The address; starts the local PostgreSQL if that is what it takes."""
        if self.settings.database_url:
            return self.settings.database_url
        if needs_database_url(self.settings):
            raise SettingError(
                "DATABASE_URL is not set: in production the queue needs a PostgreSQL of its own,"
                " such as postgresql://user:password@host/db",
                setting="DATABASE_URL",
            )
        with self._lock:
            if self._local is None:
                self._local = local_postgres.start(self._home)
                log.info("local PostgreSQL: %s", self._local.where)
            return self._local.url

    def close(self) -> None:
        """Let go of the local PostgreSQL; the last process to do so stops it."""
        with self._lock:
            if self._local is not None:
                self._local.close()
                self._local = None


def address_of(app: Flask) -> Address:
    """The application's database address."""
    address: Address = app.extensions["queue_address"]
    return address


def take_role(app: Flask, role: Role) -> None:
    """Say what this process does with the application's own engine; it serves the web otherwise."""
    address_of(app).role = role


def engine_options(settings: Settings) -> dict[str, Any]:
    """``create_engine`` options of the application's own engine."""
    return {
        # No error is to repeat values, wherever its text may end.
        "hide_parameters": True,
        # Of a worker's handlers each may use a session at once.
        "pool_size": max(settings.concurrency, 10),
        "pool_pre_ping": True,
        # The connections least used are the ones that the server may close.
        "pool_use_lifo": True,
        "pool_recycle": 1800,
        "pool_timeout": POOL_S,
    }


def connect(address: Address, role: Role, **more: Any) -> BoundedConnection:
    """Open a connection as ``role``, within its bounds."""
    settings = address.settings
    bounds = bounds_of(settings, role)
    target = _target(address)
    hosts = str(target.get("host", "")).count(",") + 1
    arguments: dict[str, Any] = {
        "application_name": connection_name(role.value, address.worker),
        # Shared by the hosts of the address; below two seconds the driver does not go.
        "connect_timeout": max(2, int(bounds.connect_s / hosts)),
        "tcp_user_timeout": int(bounds.network_s * 1000),
        "keepalives_idle": max(1, int(bounds.network_s / 2)),
        "keepalives_interval": max(1, int(bounds.network_s / 6)),
        "keepalives_count": 3,
        **more,
    }
    if settings.pooler:
        arguments["prepare_threshold"] = None
    else:
        # What the address sets comes after ours, and so wins.
        given = target.pop("options", "")
        arguments["options"] = f"{_options(role, bounds)} {given}".rstrip()
        arguments["prepare_threshold"] = _PREPARE_AFTER[role]
    with address.fuse.guarding() if role is Role.WEB else contextlib.nullcontext():
        connection = BoundedConnection.connect(**arguments | target)
    read_any_instant(connection)
    if role in (Role.WEB, Role.COMMAND):
        read_any_number(connection)
    connection.limit_s = bounds.limit_s
    if not settings.pooler and any(name in os.environ for name in _ENVIRONMENT):
        connection.execute(_OURS)
        connection.commit()
    connection.has_session = not settings.pooler
    # Said with each BEGIN, for the role's own default is not known here.
    connection.isolation_level = IsolationLevel.READ_COMMITTED if settings.pooler else None
    return connection


def _options(role: Role, bounds: Bounds) -> str:
    session = WORKER_SESSION if role is Role.WORK else SESSION
    limits = [f"-c {name}={value}" for name, value in bounds.of_the_session().items()]
    return " ".join([session, SERVER_KEEPALIVE, *limits])


def bind_address(engine: Engine, address: Address, role: Role | None = None) -> None:
    """Let ``engine`` learn where the database is when it first connects, not before.

    ``role`` None: what this process does with the application's own engine.
    """
    if engine.dialect.name == "sqlite":
        return

    @event.listens_for(engine, "do_connect")
    def _connect(
        _dialect: Any, _record: Any, _args: list[Any], parameters: dict[str, Any]
    ) -> BoundedConnection:
        return connect(address, role or address.role, **parameters)

    look_before_asking(engine)

    # A connection that has rested may be dead: it is asked before use, and not for long. Nor does
    # it take long to clear it before its rest.
    @event.listens_for(engine, "reset")
    @event.listens_for(engine, "checkin")
    def _rests(connection: BoundedConnection | None, *_: Any) -> None:
        if connection is not None:
            connection.limit_s = PING_S

    @event.listens_for(engine, "checkout")
    def _works(connection: BoundedConnection, _record: Any, _proxy: Any) -> None:
        connection.limit_s = bounds_of(address.settings, role or address.role).limit_s

    @event.listens_for(engine, "handle_error")
    def _leave_a_read_only_server(context: ExceptionContext) -> None:
        # After a failover the old server may live on as a standby, its connections with it. They
        # are of no use, and among several hosts a new one finds the server that takes writes.
        if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
            context.is_disconnect = True


def is_nameless(settings: Settings) -> bool:
    """Whether a connection is called by another name than ours: a pooler's, or the address's."""
    url = settings.database_url
    return settings.pooler or bool(url and "application_name" in make_url(url).query)


def _target(address: Address) -> dict[str, Any]:
    """The address as psycopg takes it; several hosts too."""
    url = make_url(address.url)
    return dict(url.get_dialect()().create_connect_args(url)[1])


def worker_engine(app: Flask, settings: Settings, *, connections: int) -> Engine:
    """An engine for ``flask work``: autocommit, so that each statement is one round trip."""
    engine = create_engine(
        address_of(app).engine_url,
        isolation_level="AUTOCOMMIT",
        pool_size=connections,
        max_overflow=0,
        pool_timeout=POOL_S,
    )
    bind_address(engine, address_of(app), Role.WORK)
    return engine


@dataclass(frozen=True)
class Needs:
    """How many connections one worker process has: always, and in all if handlers use sessions."""

    always: int
    most: int


def worker_needs(concurrency: int, *, listens: bool, settles_beside: bool) -> Needs:
    """Count the pump's, the lease keeper's, housekeeping's, the listener's and the handlers'.

    A settler connects while tiny jobs come by the hundred.
    """
    always = (WORKER_LINES if concurrency else 1) + listens
    return Needs(always, always + settles_beside + concurrency)


def listen_connection(app: Flask, name: str) -> BoundedConnection:
    """A connection of its own outside any pool, for LISTEN."""
    address = address_of(app)
    called = connection_name(name, address.worker)
    return connect(address, Role.WORK, autocommit=True, application_name=called)
