"""The quick check of a payload lets nothing through that the close look would refuse."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from queueapp.handlers import json_limits
from queueapp.handlers.json_limits import DEEPEST, LONGEST_PAYLOAD, encode_payload


def nested(depth: int, inner: Any = 1) -> dict[str, Any]:
    value: Any = inner
    for level in range(depth - 1):
        value = [value] if level % 2 else {"a": value}
    return {"a": value}


def doubled() -> dict[str, Any]:
    value: list[Any] = []
    for _ in range(DEEPEST - 2):
        value = [value, value]
    return {"a": value}


def own() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["own"] = value
    return value


REFUSED: list[Any] = [
    [], None, {1: 2}, {"a": {True: 1}}, {"a": object()}, {"a": {1, 2}}, {"a": b"x"},
    {"a": math.nan}, {"a": [math.inf]}, {"a": "\x00"}, {"a\x00": 1}, {"a": "\ud800"},
    {"a": ["é", {"\udfff": 1}]}, {"a": 2**1025}, nested(DEEPEST + 1), own(), doubled(),
    {"a": "x" * LONGEST_PAYLOAD}, {"a": "é" * (LONGEST_PAYLOAD // 2)}, {"a": [1] * LONGEST_PAYLOAD},
]  # fmt: skip
TAKEN: list[dict[str, Any]] = [
    {}, {"a": None, "b": [True, 1.5, -(2**63), 2**70], "ü": {"\\u0000": "\\u0000"}}, {"a": (1, 2)},
    nested(DEEPEST), {"a": "😀" * 1000}, {"a": "x" * (LONGEST_PAYLOAD - 8)},
    {"a": [0] * 100_000},
]  # fmt: skip


@pytest.mark.parametrize("payload", REFUSED, ids=lambda value: ascii(type(value)))
def test_what_cannot_be_stored_is_refused(payload: Any) -> None:
    text, problems = encode_payload(payload)
    assert (text, bool(problems)) == ("", True)
    assert json_limits._plain_text(payload) is None


@pytest.mark.parametrize("payload", TAKEN, ids=lambda value: ascii(value)[:30])
def test_what_can_be_stored_is_written_once(payload: dict[str, Any]) -> None:
    text, problems = encode_payload(payload)
    assert problems == []
    assert json.loads(text) == json.loads(json.dumps(payload))
    assert text == json_limits._compact(payload)
