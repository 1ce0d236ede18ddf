"""Whether a payload can be stored and given back as it was: JSON's types, depth, text and size."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from types import NoneType
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from queueapp.handlers.problems import MOST_PROBLEMS, Place, Problem, problem

LONGEST_PAYLOAD = 256 * 1024
DEEPEST = 32

# Every value takes two bytes at least ("1,"), so more values cannot fit. Counting them also ends
# the walk through a Python structure that holds itself twice.
_MOST_VALUES = LONGEST_PAYLOAD // 2 + 1
# A lone surrogate is half of a character: no UTF-8 can write it.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_TOO_LONG = f"larger than {LONGEST_PAYLOAD // 1024} KiB as compact JSON"

# One encoder for all: json.dumps would build one per call.
_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
# Within these every JSON reader takes an integer.
_LARGE = 2**63


class _TooMany(Exception):
    """The walk has met more values than fit into a payload."""


def encode_payload(payload: Any) -> tuple[str, list[Problem]]:
    """Write ``payload`` as compact JSON, and list what keeps it from being stored.

    The text is empty where there are problems.
    """
    text = _plain_text(payload)
    if text is not None:
        return text, []
    found = _problems(payload)
    return "" if found else _compact(payload), found


def _problems(payload: Any) -> list[Problem]:
    if not isinstance(payload, dict):
        return [problem(("payload",), "must be an object")]
    try:
        walk = _Walk().faults(payload, ("payload",), 1)
        found = [problem(place, detail) for place, detail in islice(walk, MOST_PROBLEMS)]
    except _TooMany:
        return [problem(("payload",), _TOO_LONG)]
    if not found and len(_compact(payload).encode()) > LONGEST_PAYLOAD:
        return [problem(("payload",), _TOO_LONG)]
    return found


def _plain_text(payload: Any) -> str | None:
    """The text of a payload that is all right at a glance; None for one to be looked at closely.

    Most are, and the close look would cost more than all the rest of an enqueue in Python.
    """
    if type(payload) is not dict or not _is_plain(payload):
        return None
    try:
        text = to_json(payload)  # in a fifth of the time of json's encoder
    except PydanticSerializationError:  # a lone surrogate
        return None
    # An escaped NUL may also be a backslash and "u0000".
    return None if len(text) > LONGEST_PAYLOAD or b"\\u0000" in text else text.decode()


def _is_plain(payload: dict[Any, Any]) -> bool:
    """Whether everything in it is of JSON's own types, not too deep and not too much."""
    level: list[Any] = [payload]
    met = 0
    for _ in range(DEEPEST):
        deeper = []
        for node in level:
            met += len(node)
            if type(node) is dict:
                if not all([type(key) is str for key in node]):  # noqa: C419 - twice as fast
                    return False
                node = node.values()
            for item in node:
                kind = type(item)
                if kind is dict or kind is list:
                    deeper.append(item)
                elif kind is not str and not _is_plain_scalar(kind, item):
                    return False
        if not deeper:
            return True
        if met > _MOST_VALUES:
            return False
        level = deeper
    return False


def _is_plain_scalar(kind: type[Any], value: Any) -> bool:
    if kind is int:
        return bool(-_LARGE < value < _LARGE)
    if kind is float:
        return math.isfinite(value)
    return kind is bool or kind is NoneType


def text_problem(text: str) -> str | None:
    """Say what PostgreSQL could not store in ``text``; None for nothing."""
    found = _UNSTORABLE.search(text)
    if found is None:
        return None
    return "contains a NUL character" if found[0] == "\x00" else "contains a lone surrogate"


class _Walk:
    """One walk through a payload, counting the values met."""

    def __init__(self) -> None:
        self.met = 0

    def faults(self, value: Any, place: Place, depth: int) -> Iterator[tuple[Place, str]]:
        """Yield each fault in ``value``, which stands at ``place``."""
        self.met += 1
        if self.met > _MOST_VALUES:
            raise _TooMany
        if not isinstance(value, dict | list | tuple):
            fault = _scalar_fault(value)
            if fault:
                yield place, fault
        elif depth > DEEPEST:
            yield place, f"nested deeper than {DEEPEST} levels"
        elif isinstance(value, dict):
            yield from self._object_faults(value, place, depth)
        else:
            for index, item in enumerate(value):
                yield from self.faults(item, (*place, index), depth + 1)

    def _object_faults(
        self, value: dict[Any, Any], place: Place, depth: int
    ) -> Iterator[tuple[Place, str]]:
        for key, item in value.items():
            if not isinstance(key, str):
                yield place, f"has a name that is {type(key).__name__}, not text"
                continue
            fault = text_problem(key)
            if fault:
                yield (*place, key), f"the name {fault}"
            yield from self.faults(item, (*place, key), depth + 1)


def _scalar_fault(value: Any) -> str | None:
    if isinstance(value, str):
        return text_problem(value)
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else "not a finite number"
    if isinstance(value, int):
        # What a JSON reader of another language would turn into infinity.
        return None if value.bit_length() <= 1024 else "too large a number"
    return f"is {type(value).__name__}, which JSON does not have"
