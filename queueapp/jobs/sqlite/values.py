"""How values lie in SQLite: instants, tokens and JSON as text, told apart by their column's type.

An instant is ``2026-01-31T12:00:00.000000+00:00``: always UTC, always of one width, so that texts
compare like the instants that they stand for. ``-infinity`` comes before all of them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

# The names of the column types; each holds TEXT, by which SQLite leaves the text as it is.
INSTANT, TOKEN, JSON = "instant_text", "uuid_text", "json_text"

LARGEST = 2**63


def clock() -> datetime:
    """The clock by which everything is due: that of the one machine which has the file."""
    return datetime.now(UTC)


def instant_text(instant: datetime) -> str:
    """Write an instant as it is stored."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds")


def clock_text() -> str:
    """The present instant as it is stored."""
    return instant_text(clock())


def after(seconds: float) -> str:
    """The instant so many seconds from now, as it is stored."""
    return instant_text(clock() + timedelta(seconds=seconds))


def json_text(value: Any) -> str | None:
    """Write a JSON value as it is stored; None, and JSON's null, are NULL."""
    return None if value is None else json.dumps(value, ensure_ascii=False, default=_in_json)


def _in_json(value: Any) -> Any:
    adapted = _adapted(value)
    if adapted is value:
        raise TypeError(f"no JSON: {type(value).__name__}")
    return adapted


def parameters_of(given: Any) -> Any:
    """Parameters of a statement as SQLite takes them."""
    if isinstance(given, Mapping):
        return {name: _adapted(value) for name, value in given.items()}
    return tuple(_adapted(value) for value in given)


def _adapted(value: Any) -> Any:
    for kind, adapt in _ADAPTERS:
        if isinstance(value, kind):
            return adapt(value)
    return value


def _number(value: int) -> int | float:
    """No row has a number beyond SQLite's."""
    return value if -LARGEST <= value < LARGEST else float(value)


_ADAPTERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, lambda text: text),
    (int, _number),
    (datetime, instant_text),
    (UUID, str),
    (timedelta, timedelta.total_seconds),
    (Decimal, float),
    ((list, tuple, dict), json_text),
)


def _read_instant(text: bytes) -> Any:
    return datetime.fromisoformat(text.decode())


sqlite3.register_converter(INSTANT, _read_instant)
sqlite3.register_converter(TOKEN, lambda text: UUID(text.decode()))
sqlite3.register_converter(JSON, json.loads)
