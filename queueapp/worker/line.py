"""One database connection of one thread, opened when needed and thrown away when it fails.

The lines of a worker help each other: one that the server refuses a connection works on that of
another in the meantime. With a single connection left the worker is slow, and its leases live.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from queueapp.connections.bounded import BoundedConnection

# A line that was refused asks again after about this long, not at each use.
ASK_AGAIN_S = 5.0
# Nobody keeps a connection for longer than a statement takes, mostly milliseconds.
BORROW_S = 5.0


class Line:
    """An autocommit connection that is opened again after a failure.

    ``limit`` makes the longest wait for an answer, in seconds, of that which the engine's role has.
    """

    def __init__(self, engine: Engine, limit: Callable[[float], float] | None = None) -> None:
        self._engine = engine
        self._limit = limit
        self._mutex = threading.RLock()
        self._connection: Connection | None = None
        self._others: Sequence[Line] = ()
        self._ask_at = 0.0
        self._refusal: DBAPIError | None = None
        self._borrower: Line | None = None
        self._give_way: Callable[[], None] = lambda: None
        # Whether the last try to connect failed, and none has succeeded since.
        self.is_refused = False

    def share_with(self, *others: Line, give_way: Callable[[], None]) -> None:
        """Name the lines whose connections this one may use while it gets none itself.

        ``give_way`` is called then: it lets go of connections of lesser use.
        """
        self._others = others
        self._give_way = give_way

    def open(self) -> None:
        """Connect now, so that nobody else takes the last connection. Raises the refusal."""
        with self._mutex:
            refusal = self._opened()[1]
        if refusal:
            raise refusal.with_traceback(None)

    @contextlib.contextmanager
    def use(self) -> Iterator[Connection]:
        """The connection. Whatever the database refuses drops it: the next use begins afresh."""
        with self._reach() as (line, connection):
            try:
                yield connection
            except DBAPIError:
                line.drop()
                raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """The connection, in a transaction that is committed at the end."""
        with self._reach() as (line, connection):
            try:
                connection.exec_driver_sql("BEGIN ISOLATION LEVEL READ COMMITTED")
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                line._end_transaction()
                raise

    @contextlib.contextmanager
    def _reach(self) -> Iterator[tuple[Line, Connection]]:
        with self._mutex:
            connection, refusal = self._opened()
            if connection is not None:
                yield self, connection
                return
        for other in self._others:
            with other._lent(self) as connection:
                if connection is not None:
                    yield other, connection
                    return
        assert refusal is not None
        raise refusal.with_traceback(None)

    def _opened(self) -> tuple[Connection | None, DBAPIError | None]:
        if self._connection is None and self._may_ask():
            try:
                self._connection = self._open()
                self.is_refused, self._refusal, self._ask_at = False, None, 0.0
            except DBAPIError as refusal:
                self.is_refused, self._refusal = True, refusal
                self._ask_at = time.monotonic() + ASK_AGAIN_S * random.uniform(0.8, 1.2)  # noqa: S311
                self._give_way()
        # Within ``ASK_AGAIN_S`` the last refusal still stands.
        return self._connection, self._refusal

    def _may_ask(self) -> bool:
        lender = any(other.is_open for other in self._others)
        return not lender or time.monotonic() >= self._ask_at

    def _open(self) -> Connection:
        connection = self._engine.connect()
        driver = connection.connection.driver_connection
        if self._limit and isinstance(driver, BoundedConnection) and driver.limit_s:
            driver.limit_s = self._limit(driver.limit_s)
            if driver.has_session:
                # The server comes first: its answer says more than a closed connection.
                milliseconds = int(driver.limit_s * 900)
                connection.exec_driver_sql(f"SET statement_timeout = {milliseconds}")
        return connection

    def _end_transaction(self) -> None:
        try:
            if self._connection is not None and not self._connection.invalidated:
                self._connection.exec_driver_sql("ROLLBACK")
                return
        except DBAPIError:
            pass
        self.drop()

    @contextlib.contextmanager
    def _lent(self, borrower: Line) -> Iterator[Connection | None]:
        if not self.is_open or not self._mutex.acquire(timeout=BORROW_S):
            yield None
            return
        self._borrower = borrower
        try:
            yield self._connection
        finally:
            self._borrower = None
            self._mutex.release()

    @property
    def is_open(self) -> bool:
        """Whether it has a connection, for all that is known."""
        return self._connection is not None

    def cut(self, *, but_for: Line | None = None) -> None:
        """From another thread: whoever waits for an answer here gets an error now.

        ``but_for`` that line it goes on, while it has borrowed the connection.
        """
        if but_for is not None and self._borrower is but_for:
            return
        if self._mutex.acquire(blocking=False):
            self._mutex.release()
            return
        connection = self._connection
        with contextlib.suppress(Exception):
            driver = connection.connection.driver_connection if connection is not None else None
            if isinstance(driver, BoundedConnection):
                driver.cut()

    def drop(self) -> None:
        """Close the connection; a broken one too."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.invalidate()
            connection.close()


def lines(
    engine: Engine, *, lease_s: float, give_way: Callable[[], None]
) -> tuple[Line, Line, Line]:
    """The three of a worker: the pump's, the lease keeper's and housekeeping's."""
    hot = Line(engine)
    # Two renewals may fail before a lease runs out, so none may take longer than their distance.
    beat = Line(engine, lambda seconds: min(seconds, max(lease_s / 3, 1.0)))
    # Batches of retention and days of the ledger may take their time.
    side = Line(engine, lambda seconds: seconds * 4)
    hot.share_with(beat, side, give_way=give_way)
    beat.share_with(hot, side, give_way=give_way)
    side.share_with(beat, hot, give_way=give_way)
    return hot, beat, side
