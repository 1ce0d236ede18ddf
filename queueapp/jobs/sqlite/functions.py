"""Functions that the statements call and SQLite does not have. Pure, but for the clock."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from queueapp.jobs.sqlite.values import clock_text, instant_text


def _epoch(instant: str | None) -> float | None:
    return None if instant is None else datetime.fromisoformat(instant).timestamp()


def _shifted(instant: str | None, seconds: float | None) -> str | None:
    if instant is None or seconds is None:
        return None
    return instant_text(datetime.fromisoformat(instant) + timedelta(seconds=seconds))


def _at(day: str) -> str:
    return f"{day}T00:00:00.000000+00:00"


def _greatest(*values: Any) -> Any:
    return max((value for value in values if value is not None), default=None)


def _least(*values: Any) -> Any:
    return min((value for value in values if value is not None), default=None)


def _leftmost(text: str | None, count: int) -> str | None:
    return None if text is None else text[:count]


def _octets(text: str | None) -> int | None:
    return None if text is None else len(text.encode())


def _pretty(text: str | None) -> str | None:
    return None if text is None else json.dumps(json.loads(text), indent=4, ensure_ascii=False)


def _contains(text: str, part: str) -> bool:
    return _holds(json.loads(text), json.loads(part))


def _holds(whole: Any, part: Any) -> bool:
    """As PostgreSQL has it, for objects within objects and what is neither object nor list."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and _holds(whole[name], value) for name, value in part.items()
        )
    return isinstance(whole, bool) == isinstance(part, bool) and bool(whole == part)


def _nothing(*_: Any) -> None:
    """Settings of a session: SQLite has none of them."""


def _no(*_: Any) -> int:
    return 0


def _yes(*_: Any) -> int:
    """A lock: whoever may write has the whole file to itself."""
    return 1


_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "clock_timestamp": (0, clock_text),
    "statement_timestamp": (0, clock_text),
    "now": (0, clock_text),
    "gen_random_uuid": (0, lambda: str(uuid4())),
    "at": (1, _at),
    "epoch": (1, _epoch),
    "shifted": (2, _shifted),
    "greatest": (-1, _greatest),
    "least": (-1, _least),
    "leftmost": (2, _leftmost),
    "octet_length": (1, _octets),
    "jsonb_pretty": (1, _pretty),
    "jsonb_contains": (2, _contains),
    "current_setting": (1, _no),
    "set_config": (3, _nothing),
    "pg_advisory_xact_lock": (1, _nothing),
    "pg_advisory_xact_lock_shared": (1, _nothing),
    "pg_try_advisory_xact_lock": (1, _yes),
}


def install(connection: sqlite3.Connection) -> None:
    """Give ``connection`` all of them."""
    for name, (arguments, function) in _FUNCTIONS.items():
        connection.create_function(name, arguments, function)
