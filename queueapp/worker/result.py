"""What is stored of a handler's return value: JSON of a bounded size, or why it was left out."""

from __future__ import annotations

import contextlib
import inspect
import json
from typing import Any

from queueapp.jobs.failure import printable_json

RESULT_LIMIT = 256 * 1024


def storable(value: Any) -> Any:
    """Return ``value`` as JSON that PostgreSQL takes.

    What is no JSON, or larger than 256 KiB, becomes ``{"$omitted": reason}``: the work is done, and
    a job must not run again because its result cannot be kept.
    """
    if value is None:
        return None
    try:
        visible = printable_json(value)
        size = len(json.dumps(visible, allow_nan=False, ensure_ascii=False).encode())
    # Whatever a handler returned: a set, a file, NaN, a dict that contains itself, a hostile class.
    except BaseException as error:
        _close(value)
        return {"$omitted": f"not JSON: {type(value).__name__} ({type(error).__name__})"}
    if size > RESULT_LIMIT:
        return {"$omitted": f"{size} bytes of JSON, the limit is {RESULT_LIMIT}"}
    return visible


def _close(value: Any) -> None:
    """End a coroutine that nobody awaits, or a generator: Python would warn of the one later."""
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        with contextlib.suppress(BaseException):
            value.close()
