"""Wake idle workers after a commit that made jobs due.

A NOTIFY inside a producer's transaction takes a lock that all producers share. So a session only
remembers that it has work for the workers, and after its commit one thread of this process says
so: at once, then at most every 5 ms, the last time always after the last commit. A wake-up that
gets lost costs a poll interval, nothing else.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from queueapp.jobs.database import CHANNEL, WAKE

log = logging.getLogger(__name__)

GAP_S = 0.005
# A notifier with nothing to say gives its connection back.
IDLE_S = 10.0


class Notifier:
    """Tells the workers on one database, from a thread and a connection of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = weakref.ref(engine)
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def notify(self) -> None:
        """Ask for a NOTIFY soon after now. Never blocks, never raises."""
        self._wanted.set()
        with self._lock:
            # After a fork the thread is not there any more.
            if self._pid != os.getpid() or self._thread is None or not self._thread.is_alive():
                self._pid = os.getpid()
                self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        connection: Connection | None = None
        try:
            connection = self._connect()
            while connection is not None and self._has_work():
                self._wanted.clear()
                connection.exec_driver_sql(f"NOTIFY {CHANNEL}")
                time.sleep(GAP_S)
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            log.warning("workers were not woken, they will poll: %s", type(cause).__name__)
        finally:
            if connection is not None:
                connection.close()

    def _has_work(self) -> bool:
        if self._wanted.wait(IDLE_S):
            return True
        with self._lock:
            # Under the lock: whoever asks now either is seen here or starts another thread.
            if not self._wanted.is_set():
                self._thread = None
            return self._wanted.is_set()

    def _connect(self) -> Connection | None:
        engine = self._engine()
        if engine is None:
            return None
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        # Out of the pool: the application's threads must not have one connection less.
        connection.detach()
        return connection


_notifiers: weakref.WeakKeyDictionary[Engine, Notifier] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def notifier_of(engine: Engine) -> Notifier:
    """The one notifier of this process for ``engine``."""
    with _lock:
        return _notifiers.setdefault(engine, Notifier(engine))


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
