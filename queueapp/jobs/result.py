"""What is stored of a handler's return value: JSON of a bounded size, or why it was left out."""

from __future__ import annotations

import contextlib
import inspect
import json
from typing import Any, NamedTuple

from queueapp.jobs.failure import printable_json

RESULT_LIMIT = 256 * 1024


class Result(NamedTuple):
    """What is stored, and how many bytes of JSON that is."""

    value: Any
    size: int


def storable(value: Any) -> Result:
    """Return ``value`` as JSON that PostgreSQL takes.

    What is no JSON, larger than 256 KiB, or nested deeper than 200 levels becomes ``{"$omitted":
    reason}``: the work is done, and a job must not run again because its result cannot be kept.
    """
    if value is None:
        return Result(None, 0)
    try:
        visible = printable_json(value)
        size = len(json.dumps(visible, allow_nan=False, ensure_ascii=False).encode())
    # Whatever a handler returned: a set, a file, NaN, a dict that contains itself, a hostile class.
    except BaseException as error:
        _close(value)
        return _omitted(f"not JSON: {type(value).__name__} ({type(error).__name__})")
    if size > RESULT_LIMIT:
        return _omitted(f"{size} bytes of JSON, the limit is {RESULT_LIMIT}")
    return Result(visible, size)


def _omitted(reason: str) -> Result:
    return Result({"$omitted": reason}, len(reason))


def _close(value: Any) -> None:
    """End a coroutine that nobody awaits, or a generator: Python would warn of the one later."""
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        with contextlib.suppress(BaseException):
            value.close()
