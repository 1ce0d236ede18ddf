"""LISTEN: hear at once that a commit made jobs due. Always drained, never relied on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from queueapp.jobs.database import CHANNEL
from queueapp.worker.line import Line

WAIT_S = 1.0
# After a notification, so that those of many producers cost one look: they are kept meanwhile.
REST_S = 0.002


class Wakeup:
    """Listens on a connection of its own; ``wake`` is called once for all that has come."""

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], wake: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._wake = wake
        self._connection: psycopg.Connection[Any] | None = None
        self._lines: Sequence[Line] = ()
        self._others_lack: Callable[[], bool] = lambda: False

    def come_after(self, lines: Sequence[Line], others_lack: Callable[[], bool]) -> None:
        """Have no connection while one of ``lines`` gets none, or ``others_lack`` one."""
        self._lines = lines
        self._others_lack = others_lack

    def tick(self) -> float:
        """Wait for a notification up to a second; seconds until the next tick."""
        refused = [line for line in self._lines if line.is_refused]
        if refused:
            self.close()
            for line in refused:
                line.open()
        if self._others_lack():
            self.close()
            return WAIT_S
        try:
            return REST_S if self._listen() else 0.0
        except psycopg.Error:
            self.close()
            raise

    def _listen(self) -> bool:
        """Wait for a notification; whether one came."""
        if self._connection is None:
            self._connection = self._connect()
            self._connection.execute(f"LISTEN {CHANNEL}")
            # What was committed before LISTEN took effect has made no sound.
            self._wake()
        heard = False
        for _ in self._connection.notifies(timeout=WAIT_S, stop_after=1):
            heard = True
        if heard:
            self._wake()
        return heard

    def close(self) -> None:
        """Stop listening."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()
