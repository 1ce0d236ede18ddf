"""Whole numbers that Python does not read: of thousands of digits, in JSON written past the queue.

The driver fails over one of them, and the answer that was to show it; as text it can be shown.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg.types.json import set_json_loads


def loads(text: str | bytes) -> Any:
    """Read JSON; whole numbers out of reach become their digits."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text, parse_int=_whole)


def read_any_number(connection: psycopg.Connection[Any]) -> None:
    """Let ``connection`` read every number that JSON of the database can hold."""
    set_json_loads(loads, connection)


def _whole(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits
