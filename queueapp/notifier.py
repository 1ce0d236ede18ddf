"""Wake idle workers after a commit that made jobs due.

A NOTIFY inside a producer's transaction takes a lock that all producers share. So a session only
remembers that it has work for the workers, and after its commit one thread of this process says
so: at once, then at most every 5 ms, the last time always after the last commit. A wake-up that
gets lost costs a poll interval, nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import weakref
from typing import Any

import psycopg
from psycopg import generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

from queueapp.connections.bounded import BoundedConnection
from queueapp.connections.bounds import PING_S
from queueapp.jobs.database import CHANNEL, WAKE

log = logging.getLogger(__name__)

GAP_S = 0.005
# A notifier with nothing to say for so long gives its connection back: a new one takes 10 ms and
# more, which producers of a few jobs a minute need not wait for each time.
IDLE_S = 60.0
# A producer that ends right after its commit waits so long for its NOTIFY at most.
FINISH_S = 1.0
# After a failure, so that it costs each commit no new connection.
REFUSED_AGAIN_S = 1.0

_NOTIFY = f"NOTIFY {CHANNEL}"


class Notifier:
    """Tells the workers on one database, from a thread and a connection of its own."""

    def __init__(self, engine: Engine) -> None:
        self._wanted = threading.Event()
        # With the engine the connection goes as well, at once.
        self._engine = weakref.ref(engine, lambda _: self._wanted.set())
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._refused = self._telling = False

    def notify(self) -> None:
        """Ask for a NOTIFY soon after now. Never blocks, never raises."""
        if self._wanted.is_set() and self._thread is not None:
            return  # What has been asked for and not been sent yet comes after this commit too.
        with self._lock:
            self._wanted.set()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="notifier", daemon=True)
                # There may be no more threads, or the process ends: the commit stands.
                with contextlib.suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def finish(self, within_s: float) -> None:
        """Wait until all has been said that was asked for."""
        deadline = time.monotonic() + within_s
        while self._thread and (self._wanted.is_set() or self._telling):
            if time.monotonic() > deadline:
                return
            time.sleep(GAP_S / 5)

    def _run(self) -> None:
        connection: Any = None
        while self._has_work():
            self._telling = True
            self._wanted.clear()
            connection = self._tell(connection)
            self._telling = False
            time.sleep(GAP_S if connection is not None else REFUSED_AGAIN_S)
        _close(connection)

    def _has_work(self) -> bool:
        wanted = self._wanted.wait(IDLE_S)
        with self._lock:
            # Under the lock: whoever asks now either is seen here or starts another thread.
            wanted = (wanted or self._wanted.is_set()) and self._engine() is not None
            if not wanted:
                self._thread = None
            return wanted

    def _tell(self, connection: Any) -> Any:
        """Say it, over a new connection if the old one has died; that to use next, if any."""
        if connection is not None:
            try:
                _notify(connection)
                return connection
            except Exception as error:
                log.debug("the notifier connects again: %s", error)
                _close(connection)
        connection = None
        try:
            connection = self._connect()
            if connection is not None:
                _notify(connection)
                self._refused = False
                return connection
        # Of whatever driver: the next commit's wake-up must find a thread.
        except Exception as error:
            cause = type(getattr(error, "orig", None) or error).__name__
            level = logging.DEBUG if self._refused else logging.WARNING
            log.log(level, "workers were not woken, they will poll: %s", cause)
            self._refused = True
        _close(connection)
        return None

    def _connect(self) -> Any:
        """Open a connection beside the pool: it may be used up, and its threads need all of it."""
        engine = self._engine()
        if engine is None:
            return None
        pooled = engine.pool.recreate().connect()
        pooled.detach()
        connection: Any = pooled.dbapi_connection
        connection.autocommit = True
        if isinstance(connection, BoundedConnection) and connection.limit_s is None:
            # A command may wait for its statements as long as it likes; nobody waits for a hint.
            connection.limit_s = PING_S
        return connection


def _notify(connection: Any) -> None:
    if not isinstance(connection, psycopg.Connection):
        connection.cursor().execute(_NOTIFY)
        return
    # As a statement of a cursor it takes two to three times the processor, at each commit.
    connection.pgconn.send_query(_NOTIFY.encode())
    for result in connection.wait(generators.execute(connection.pgconn)):
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)


def _close(connection: Any) -> None:
    if connection is not None:
        with contextlib.suppress(Exception):
            connection.close()


class _Notifiers:
    """Those of this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """After a fork: the threads are not there, and a lock may be held by one of them."""
        self._lock = threading.Lock()
        self._by_engine: weakref.WeakKeyDictionary[Engine, Notifier] = weakref.WeakKeyDictionary()

    def of(self, engine: Engine) -> Notifier:
        # An engine with other options is a short-lived copy with the same pool.
        engine = getattr(engine, "_proxied", engine)
        found = self._by_engine.get(engine)
        if found is None:
            with self._lock:
                found = self._by_engine.setdefault(engine, Notifier(engine))
            # Before what was registered until now: that may stop the server.
            atexit.unregister(self.finish)
            atexit.register(self.finish)
        return found

    def finish(self) -> None:
        """At the end of the process: its last commit is told of as well."""
        for notifier in list(self._by_engine.values()):
            notifier.finish(FINISH_S)


_notifiers = _Notifiers()
os.register_at_fork(after_in_child=_notifiers.forget)


def notifier_of(engine: Engine) -> Notifier:
    """The one notifier of this process for ``engine``."""
    return _notifiers.of(engine)


def _after_commit(session: Session) -> None:
    # A released savepoint is no commit yet.
    if not session.in_nested_transaction() and session.info.pop(WAKE, False):
        bind = session.get_bind()
        if bind.dialect.name != "sqlite":  # there workers poll
            notifier_of(bind.engine).notify()


def _after_rollback(session: Session) -> None:
    if not session.in_nested_transaction():
        session.info.pop(WAKE, None)


def install() -> None:
    """Have every SQLAlchemy session of this process tell, once however often it is called."""
    for name, listener in (("after_commit", _after_commit), ("after_rollback", _after_rollback)):
        if not event.contains(Session, name, listener):
            event.listen(Session, name, listener)
