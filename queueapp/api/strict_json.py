"""Read JSON as other languages would: what Python's parser lets through is refused here.

Refused with the place named: bytes that are not UTF-8, a name given twice in one object, nesting
beyond any use. NaN and Infinity come out as floats; whoever takes a number refuses them.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from queueapp.api.invalid import invalid_at
from queueapp.errors import BadRequest, InvalidRequest
from queueapp.handlers.problems import Place

_TOO_DEEP = "nested far too deeply"
_LONG_NUMBER = "a number with thousands of digits"
# Python's own bound is 4,300.
_MOST_DIGITS = 4000
_SPACE = re.compile(r"[ \t\n\r]*")
_BREAKS_OFF = "Unterminated string starting at"
# The parser stops within so many characters of where a text breaks off, but for a string.
_TOKEN = 16


def parse(raw: bytes, *, any_number: bool = False) -> Any:
    """The value in ``raw``. Raises BadRequest for what is not JSON, InvalidRequest for the rest.

    ``any_number``: NaN stands for a number of more digits than Python reads.
    """
    reader = _Reader()
    whole = _whole if any_number else None
    with _refusals(()):
        value = json.loads(_text(raw), object_pairs_hook=reader.take, parse_int=whole)
        reader.refuse_repeated(value, ())
    return value


def _whole(digits: str) -> float:
    return int(digits) if len(digits) <= _MOST_DIGITS else math.nan


def parse_array(raw: bytes, longest: int) -> Iterator[Any]:
    """The items of the array in ``raw``, each parsed when it is asked for.

    Raises as ``parse`` does, and InvalidRequest for an item of more than ``longest`` characters:
    what one item takes in memory is bounded, and what follows the last one taken costs nothing.
    """
    text = _text(raw)
    start = _after_space(text, 0)
    if text[start : start + 1] != "[":
        if len(text) <= longest:
            parse(raw)
        raise invalid_at((), "must be an array")
    with _refusals(()):
        at = _after_space(text, start + 1)
        if text[at : at + 1] != "]":
            at = yield from _items(text, at, longest)
        if text[at : at + 1] != "]":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        end = _after_space(text, at + 1)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)


def _items(text: str, at: int, longest: int) -> Generator[Any, None, int]:
    """Yield the items from ``at`` on; returns where the last one ends."""
    reader = _Reader()
    decoder = json.JSONDecoder(object_pairs_hook=reader.take)
    # The parser sees a window of the text, so that it goes no further in an item that is too long.
    begin, window, size = 0, "", longest + _TOKEN
    for index in itertools.count():
        if begin + len(window) < min(len(text), at + size):
            begin, window = at, text[at : at + 2 * size]
        with _refusals((index,)):
            try:
                value, end = decoder.raw_decode(window, at - begin)
            except json.JSONDecodeError as error:
                is_cut = begin + len(window) < len(text)
                if is_cut and (error.pos >= at - begin + longest or error.msg == _BREAKS_OFF):
                    raise _too_long(index, longest) from None
                raise json.JSONDecodeError(error.msg, text, begin + error.pos) from None
            if begin + end - at > longest:
                raise _too_long(index, longest)
            reader.refuse_repeated(value, (index,))
        yield value
        at = _after_space(text, begin + end)
        if text[at : at + 1] != ",":
            return at
        at = _after_space(text, at + 1)
    raise AssertionError("counting has ended")


def _too_long(index: int, longest: int) -> InvalidRequest:
    return invalid_at((index,), f"longer than {longest} characters")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _text(raw: bytes) -> str:
    if raw.startswith(BOM_UTF8):
        raise BadRequest("it begins with a byte order mark: save or send it as UTF-8 without one")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"this is not UTF-8: byte {error.start} is wrong") from None


@contextmanager
def _refusals(place: Place) -> Iterator[None]:
    """Turn the parser's errors about what stands at ``place`` into refusals."""
    try:
        yield
    except json.JSONDecodeError as error:
        lines = f"line {error.lineno}, " if "\n" in error.doc else ""
        where = f"{lines}column {error.colno}"
        raise BadRequest(f"this is not JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise invalid_at(place, _TOO_DEEP) from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        raise invalid_at(place, _LONG_NUMBER) from None


class _Reader:
    """Takes the objects as the parser finishes them, and keeps the first with a name twice."""

    def __init__(self) -> None:
        self._repeated: tuple[dict[str, Any], str] | None = None

    def take(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs) and self._repeated is None:
            self._repeated = made, _first_repeated(pairs)
        return made

    def refuse_repeated(self, value: Any, at: Place) -> None:
        """Raise for a name that was given twice in ``value``, which stands ``at``."""
        if self._repeated is not None:
            holder, name = self._repeated
            # The object may be gone: it stood under a name that was itself given twice.
            place = next(_places(value, holder, at), at)
            raise invalid_at((*place, name), "given twice in one object")


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
