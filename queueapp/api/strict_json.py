"""Read JSON as other languages would: what Python's parser lets through is refused here.

Refused with the place named: bytes that are not UTF-8, a name given twice in one object, nesting
beyond any use. NaN and Infinity come out as floats; whoever takes a number refuses them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from queueapp.errors import BadRequest, InvalidRequest
from queueapp.handlers.problems import Place, problem

_TOO_DEEP = "nested far too deeply"
_LONG_NUMBER = "a number with thousands of digits"


def parse(raw: bytes) -> Any:
    """The value in ``raw``. Raises BadRequest for what is not JSON, InvalidRequest for the rest."""
    reader = _Reader()
    try:
        value = json.loads(_text(raw), object_pairs_hook=reader.take)
        reader.refuse_repeated(value)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(f"this is not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise _invalid((), _TOO_DEEP) from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        raise _invalid((), _LONG_NUMBER) from None
    return value


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"this is not UTF-8: byte {error.start} is wrong") from None


def _invalid(place: Place, detail: str) -> InvalidRequest:
    found = problem(place, detail)
    return InvalidRequest(f"{found['pointer']} {detail}".strip(), errors=[found])


class _Reader:
    """Takes the objects as the parser finishes them, and keeps the first with a name twice."""

    def __init__(self) -> None:
        self._repeated: tuple[dict[str, Any], str] | None = None

    def take(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs) and self._repeated is None:
            self._repeated = made, _first_repeated(pairs)
        return made

    def refuse_repeated(self, value: Any) -> None:
        if self._repeated is not None:
            holder, name = self._repeated
            # The object may be gone: it stood under a name that was itself given twice.
            place = next(_places(value, holder, ()), ())
            raise _invalid((*place, name), "given twice in one object")


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    met: set[str] = set()
    for name, _ in pairs:
        if name in met:
            return name
        met.add(name)
    raise AssertionError("no name is repeated")


def _places(value: Any, wanted: dict[str, Any], place: Place) -> Iterator[Place]:
    if value is wanted:
        yield place
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _places(item, wanted, (*place, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, wanted, (*place, index))
