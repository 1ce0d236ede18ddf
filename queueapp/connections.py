"""Where the database is, and how each role of process connects to it.

Without ``DATABASE_URL`` the address is that of a local PostgreSQL, started at the first connection
and held for the life of the process; in production that is an error instead.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import psycopg
from flask import Flask
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url

from queueapp import local_postgres
from queueapp.config import Settings, needs_database_url
from queueapp.errors import SettingError

log = logging.getLogger(__name__)

# A dead peer is noticed in half a minute rather than in the system's two hours.
KEEPALIVE = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# What a server answers to a write while it is a standby, or was told to take none.
READ_ONLY = "25006"

# Every statement is written for READ COMMITTED, whatever the role's default is. Instants inside
# JSON come in the session's zone; one zone makes them easy to read.
WEB_SESSION = "-c timezone=UTC -c default_transaction_isolation=read\\ committed"

# Worker statements are tiny and hot: compiling them costs more than it can save, and so does
# planning them anew each time (2.4 ms a turn; left to choose, PostgreSQL does so whenever a single
# slot is free). A plan made while the table was empty must not become a sequential scan when it is
# full.
WORKER_SESSION = (
    f"{WEB_SESSION} -c jit=off -c enable_seqscan=off -c plan_cache_mode=force_generic_plan"
)


class Address:
    """The database address of one application, resolved once."""

    def __init__(self, settings: Settings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._lock = threading.Lock()
        self._local: local_postgres.LocalPostgres | None = None

    @property
    def is_local(self) -> bool:
        """Whether this process starts (or reuses) the PostgreSQL under ``instance/``."""
        return not self._settings.database_url

    @property
    def url(self) -> str:
        """The address; starts the local PostgreSQL if that is what it takes."""
        if self._settings.database_url:
            return self._settings.database_url
        if needs_database_url(self._settings):
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


def engine_options(settings: Settings, role: str) -> dict[str, Any]:
    """``create_engine`` options for ``role``: ``web`` or ``work``."""
    arguments: dict[str, Any] = {**KEEPALIVE, "application_name": f"queueapp-{role}"}
    if settings.pooler:
        arguments["prepare_threshold"] = None
    elif role == "work":
        arguments |= {"options": WORKER_SESSION, "prepare_threshold": 1}
    else:
        arguments["options"] = WEB_SESSION
    return {
        "connect_args": arguments,
        "pool_pre_ping": role == "web",
        "pool_recycle": 1800,
        "pool_timeout": 10,
    }


def bind_address(engine: Engine, address: Address) -> None:
    """Let ``engine`` learn where the database is when it first connects, not before."""

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, _args: list[Any], parameters: dict[str, Any]) -> None:
        parameters.update(_arguments(address))

    @event.listens_for(engine, "handle_error")
    def _leave_a_read_only_server(context: ExceptionContext) -> None:
        # After a failover the old server may live on as a standby, its connections with it. They
        # are of no use, and among several hosts a new one finds the server that takes writes.
        if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
            context.is_disconnect = True


def _arguments(address: Address) -> dict[str, Any]:
    """The address as psycopg takes it; several hosts too."""
    url = make_url(address.url)
    return dict(url.get_dialect()().create_connect_args(url)[1])


def worker_engine(app: Flask, settings: Settings, *, connections: int) -> Engine:
    """An engine for ``flask work``: autocommit, so that each statement is one round trip."""
    engine = create_engine(
        "postgresql+psycopg://",
        isolation_level="AUTOCOMMIT",
        pool_size=connections,
        max_overflow=0,
        **engine_options(settings, "work"),
    )
    bind_address(engine, address_of(app))
    return engine


def listen_connection(app: Flask, role: str) -> psycopg.Connection[Any]:
    """A connection of its own outside any pool, for LISTEN or NOTIFY."""
    arguments: dict[str, Any] = {**KEEPALIVE, "application_name": f"queueapp-{role}"}
    return psycopg.connect(autocommit=True, **arguments | _arguments(address_of(app)))
