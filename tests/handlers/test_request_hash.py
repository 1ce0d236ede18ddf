"""Equal requests hash equally however they are written; different ones name what differs."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from queueapp.handlers.request_hash import differing_fields, request_hash


def test_a_hash_is_one_pair_for_each_field_that_was_sent() -> None:
    found = request_hash({"payload": {"a": 1}, "kind": "mail.send"})
    assert re.fullmatch(r"kind=[0-9a-f]{8} payload=[0-9a-f]{8}", found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [1]}', '{"b":[1.0],"a":1e0}'),
        ('{"a": 100}', '{"a": 1e2}'),
        ('{"a": 0}', '{"a": -0.0}'),
        ('{"a": 10000000000000000000000}', '{"a": 1e22}'),
        ('{"a": "A"}', '{"a": "\\u0041"}'),
        ('{"a": {"x": 1, "y": 2}}', '{"a": {"y": 2, "x": 1}}'),
    ],
)
def test_equal_content_written_differently_is_equal(one: str, other: str) -> None:
    assert request_hash({"payload": json.loads(one)}) == request_hash(
        {"payload": json.loads(other)}
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": 2**53}, {"a": 2**53 + 1}),
        ({"a": ""}, {"a": None}),
    ],
)
def test_different_content_is_different(one: Any, other: Any) -> None:
    assert request_hash({"payload": one}) != request_hash({"payload": other})


def test_an_instant_counts_not_its_spelling() -> None:
    berlin = datetime(2026, 6, 1, 10, tzinfo=timezone(timedelta(hours=2)))
    utc = datetime(2026, 6, 1, 8, tzinfo=UTC)
    assert request_hash({"available_at": berlin}) == request_hash({"available_at": utc})
    assert request_hash({"delay": timedelta(minutes=1)}) == request_hash({"delay": 60})


def test_the_fields_that_differ_are_named_one_sided_ones_too() -> None:
    stored = request_hash({"kind": "a", "payload": {}, "priority": 5})
    sent = request_hash({"kind": "a", "payload": {"x": 1}, "delay": 1})
    assert differing_fields(sent, stored) == ("delay", "payload", "priority")
    assert differing_fields(stored, stored) == ()
    assert differing_fields(sent, None) == ("delay", "kind", "payload")


def test_a_default_that_was_sent_differs_from_one_that_was_not() -> None:
    assert differing_fields(
        request_hash({"kind": "a", "priority": 0}), request_hash({"kind": "a"})
    ) == ("priority",)
