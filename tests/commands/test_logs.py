"""The log's lines: none that the product did not write."""

from __future__ import annotations

import logging

import pytest

from queueapp.commands.logs import LineFormatter


@pytest.mark.parametrize(
    ("fields", "text"),
    [({}, "INFO one\\nINFO two\\r"), ({"lines": True}, "INFO one\nINFO INFO two\r")],
)
def test_only_a_record_of_many_lines_has_more_than_one(fields: dict[str, bool], text: str) -> None:
    said = {"msg": "one\nINFO two\r", "levelname": "INFO", **fields}
    record = logging.makeLogRecord(said)

    assert LineFormatter("%(levelname)s %(message)s").format(record) == text
