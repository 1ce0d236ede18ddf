"""Instants that Python has not: 'infinity' and years beyond 9999, written by other means than ours.

The driver refuses a whole answer for one of them: a page would show no job, and a worker would
never hear of the other jobs that it has just claimed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg
from psycopg import DataError
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

from queueapp.jobs.instants import EARLIEST, LATEST, nearest

_OID = psycopg.adapters.types["timestamptz"].oid


class _Nearest(Loader):
    """Reads as the driver does, and what is out of reach as the first or last that is not."""

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        usual = psycopg.adapters.get_loader(_OID, Format.TEXT)
        assert usual
        self._usual = usual(oid, context)

    def load(self, data: Buffer) -> datetime:
        """Read one instant."""
        try:
            instant: datetime = self._usual.load(data)
        except DataError:
            return nearest(bytes(data).decode())
        return min(max(instant, EARLIEST), LATEST)


class _NearestBinary(Loader):
    """The same for what comes in binary, as claims do: a number that is below 0 before 2000."""

    format = Format.BINARY

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        usual = psycopg.adapters.get_loader(_OID, Format.BINARY)
        assert usual
        self._usual = usual(oid, context).load

    def load(self, data: Buffer) -> datetime:
        """Read one instant."""
        try:
            instant: datetime = self._usual(data)
        except DataError:
            is_before = bytes(data[:1]) >= b"\x80"
            return EARLIEST if is_before else LATEST
        return instant


def read_any_instant(connection: psycopg.Connection[Any]) -> None:
    """Let ``connection`` read every instant that a row can hold."""
    connection.adapters.register_loader("timestamptz", _Nearest)
    connection.adapters.register_loader("timestamptz", _NearestBinary)
