"""Kinds of job that do what handlers should not, for journeys whose workers are told of them.

What each name stands for is here, what must become of it in the tests.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import linecache
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from queueapp import JobContext, handler
from tests.live import hanging, spoiling
from tests.live.kinds import gate, noted

__all__ = ["hanging", "spoiling"]

MB = 1024 * 1024


class Odd(BaseException):
    """No Exception."""


class Speechless(Exception):
    """Cannot say what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Leaving(Exception):
    """Ends the thread when it is asked for its text, if it can."""

    def __str__(self) -> str:  # noqa: PLE0307
        sys.exit(3)


class OddlyNamed(Exception):
    """Has a name that no database stores."""


OddlyNamed.__qualname__ = "Odd\x00ly\ud800Named"


class Bottomless(Exception):
    """Its text asks for its text."""

    def __str__(self) -> str:
        return str(self)


def _noted_error(note: str) -> Exception:
    error = ValueError("see the note")
    error.add_note(note)
    return error


def _in_a_line(line: str) -> Exception:
    """An error out of a frame whose source holds ``line``, as templates and notebooks have them."""
    name = f"<made of {len(line)} characters>"
    linecache.cache[name] = (len(line), None, [line + "\n"], name)
    try:
        exec(compile("raise ValueError('in a line')", name, "exec"))
    except ValueError as error:
        return error
    raise AssertionError


def _recursion(left: float = float("inf")) -> Exception:
    if left <= 0:
        raise ValueError("at the bottom")
    return _recursion_too(left - 1)


def _recursion_too(left: float) -> Exception:
    # In two functions: a traceback folds lines that are equal.
    return _recursion(left - 1)


def _deep() -> Exception:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(12_000)
    try:
        return _recursion(10_000)
    finally:
        sys.setrecursionlimit(before)


def _chain() -> Exception:
    error = ValueError("cause 0")
    for number in range(1, 1_000):
        again = ValueError(f"cause {number}")
        again.__cause__ = error
        error = again
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "plain": lambda: ValueError("it broke"),
    "exit 0": lambda: sys.exit(0),
    "exit x": lambda: sys.exit("x"),
    "interrupt": KeyboardInterrupt,
    "generator": GeneratorExit,
    "odd": lambda: Odd("odd"),
    "cancelled": asyncio.CancelledError,
    "group": lambda: BaseExceptionGroup("several", [Odd("odd"), SystemExit(1)]),
    "nul message": lambda: ValueError("a\x00b"),
    "nul note": lambda: _noted_error("a\x00b"),
    "odd class": lambda: OddlyNamed("named oddly"),
    "nul line": lambda: _in_a_line("a\x00b"),
    "surrogate message": lambda: ValueError("a\ud800b"),
    "surrogate note": lambda: _noted_error("a\ud800b"),
    "surrogate line": lambda: _in_a_line("a\ud800b!"),
    "huge": lambda: ValueError("head" + "x" * (50 * MB) + "tail"),
    "recursion": _recursion,
    "deep": _deep,
    "chain": _chain,
    "note": lambda: _noted_error("line\n" * 10_000),
    "speechless": Speechless,
    "leaving": Leaving,
    "bottomless": Bottomless,
}


@handler("journey.raises")
def raises(context: JobContext, what: str) -> None:
    """Raise something."""
    with noted(context):
        raise ERRORS[what]()


@handler("journey.raises_after")
def raises_after(context: JobContext, ms: float) -> None:
    """Fail after ``ms`` milliseconds."""
    with noted(context):
        time.sleep(ms / 1000)
        raise ValueError("as was to be expected")


@handler("journey.fails_at_the_gate")
def fails_at_the_gate(context: JobContext) -> None:
    """Run until the test opens this attempt's gate, then fail."""
    gate(context)
    raise RuntimeError("as was to be expected")


async def _nobody_awaits() -> None:
    """Never run."""


def _loop() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return loop


def _nested(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


RESULTS: dict[str, Callable[[], Any]] = {
    "plain": lambda: {"ok": [1, None, "żółć"]},
    "set": lambda: {1, 2},
    "bytes": lambda: b"x",
    "decimal": lambda: decimal.Decimal("1.5"),
    "datetime": lambda: dt.datetime.now(dt.UTC),
    "file": tempfile.TemporaryFile,
    "coroutine": _nobody_awaits,
    "generator": lambda: (number for number in range(3)),
    "loop": _loop,
    "tuple keys": lambda: {(1, 2): 3},
    "nan": lambda: float("nan"),
    "object": object,
    "nested": lambda: _nested(100_000),
    "deep": lambda: _nested(300),
    "huge": lambda: "x" * MB,
    "nul": lambda: {"a\x00b": ["a\x00b"]},
    "surrogate": lambda: {"a\ud800b": ["a\ud800b"]},
}


@handler("journey.returns")
def returns(context: JobContext, what: str) -> Any:
    """Return something."""
    with noted(context):
        return RESULTS[what]()
