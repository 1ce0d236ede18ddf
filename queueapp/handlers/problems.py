"""What is wrong with a request: a JSON pointer and a sentence each, never the value itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from queueapp.handlers.wording import plain
from queueapp.jobs.failure import printable

Problem: TypeAlias = dict[str, str]
Place: TypeAlias = tuple[str | int, ...]

# More are the same mistake again, and an answer has to end somewhere.
MOST_PROBLEMS = 20

_LONGEST_STEP = 100
# Their messages are written by the author of a handler's own check, or quote the input.
_MAY_QUOTE = ("value_error", "assertion_error", "union_tag_invalid")


def problem(place: Place, detail: str) -> Problem:
    """Name what is wrong at ``place``."""
    return {"pointer": pointer(place), "detail": detail}


class _Rest(Problem):
    """The entry that counts the problems that are not listed."""

    def __init__(self, count: int) -> None:
        super().__init__(problem((), f"{count} more problems are not listed"))
        self.count = count


def first_of(found: list[Problem], more: int = 0) -> list[Problem]:
    """The first problems of one job, and a last entry that counts the rest and ``more``."""
    more += sum(one.count for one in found if isinstance(one, _Rest))
    listed = [one for one in found if not isinstance(one, _Rest)]
    more += max(0, len(listed) - MOST_PROBLEMS)
    return [*listed[:MOST_PROBLEMS], _Rest(more)] if more else listed


def pointer(place: Place) -> str:
    """Write ``place`` as an RFC 6901 pointer; what no answer could carry is made visible."""
    return "".join(f"/{_step(step)}" for step in place)


def _step(step: str | int) -> str:
    text = printable(str(step)).replace("~", "~0").replace("/", "~1")
    return text if len(text) <= _LONGEST_STEP else text[:_LONGEST_STEP] + "…"


def of_validation(error: ValidationError, payload: Any) -> list[Problem]:
    """Turn pydantic's findings about ``payload`` into problems."""
    found = error.errors(include_url=False, include_context=False)
    listed = [
        problem(("payload", *place_in(one, payload)), _detail(one)) for one in found[:MOST_PROBLEMS]
    ]
    return first_of(listed, more=len(found) - len(listed))


def place_in(found: ErrorDetails, document: Any) -> Iterator[str | int]:
    """The place of a finding in ``document``."""
    # pydantic's path also names branches of unions and the like, which are no part of the document.
    node, loc = document, found["loc"]
    for index, step in enumerate(loc):
        if _has(node, step):
            node = node[step]
            yield step
        elif found["type"] == "missing" and index == len(loc) - 1:
            yield step


def _has(node: Any, step: str | int) -> bool:
    if isinstance(node, dict):
        return step in node
    return isinstance(node, list) and isinstance(step, int) and 0 <= step < len(node)


def _detail(found: ErrorDetails) -> str:
    kind = found["type"]
    if kind in _MAY_QUOTE and _quotes(found["msg"], found["input"]):
        return "refused by the handler's own check"
    return plain(found)


def _quotes(message: str, value: Any) -> bool:
    # Up to three characters are no secret, and would be found in any sentence.
    return any(len(text) > 3 and text in message for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)
