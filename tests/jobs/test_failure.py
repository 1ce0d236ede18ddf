"""A failure is kept whatever the exception does, cut, and fit for PostgreSQL."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs.failure import (
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    Failure,
    cut_middle,
    described,
    fingerprint,
    of_exception,
    printable,
    printable_json,
)

# What the mark of a cut may add.
MARK = 40


def caught(raiser: Callable[[], Any]) -> BaseException:
    try:
        raiser()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def failing(message: str = "it broke", error: type[BaseException] = ValueError) -> BaseException:
    def handler() -> None:
        raise error(message)

    return caught(handler)


def assert_storable(failure: Failure) -> None:
    for text in (failure.error_class, failure.message, failure.traceback or ""):
        assert "\x00" not in text
        text.encode("utf-8")
    assert len(failure.error_class) <= 200 + MARK
    assert len(failure.message) <= MESSAGE_LIMIT + MARK
    assert len(failure.traceback or "") <= TRACEBACK_LIMIT + MARK
    assert len(failure.fingerprint) == 16


def test_a_failure_has_class_message_and_traceback() -> None:
    failure = of_exception(failing("no such host"))

    assert (failure.error_class, failure.message) == ("ValueError", "no such host")
    assert failure.traceback is not None
    assert failure.traceback.startswith("Traceback (most recent call last)")
    assert failure.traceback.rstrip().endswith("ValueError: no such host")
    assert "test_failure.py" in failure.traceback


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("a\x00b", "a\\x00b"),
        ("half \ud83d", "half \\ud83d"),
        ("other half \ude00", "other half \\ude00"),
        ("whole 😀, é, \n\t", "whole 😀, é, \n\t"),
    ],
)
def test_text_that_postgresql_refuses_is_made_visible(text: str, visible: str) -> None:
    assert printable(text) == visible
    assert printable_json({text: [text, (text,), 1, None]}) == {
        visible: [visible, [visible], 1, None]
    }
    assert_storable(of_exception(failing(text)))
    assert of_exception(failing(text)).message == visible


@pytest.mark.parametrize("text", ["a\x00b", "half \ud83d", "x" * 100_000])
def test_a_described_failure_is_storable_too(text: str) -> None:
    assert_storable(described(text, text))


def test_postgresql_takes_what_was_made_visible(session: Session) -> None:
    text = "".join(map(chr, range(0xD7F0, 0xE010))) + "\x00" + "\uffff\U0010ffff"
    failure = of_exception(failing(text))
    select = sa.text("SELECT CAST(:text AS text), CAST(:json AS jsonb)")

    stored = session.execute(
        select.bindparams(sa.bindparam("json", type_=sa.JSON)),
        {"text": failure.message, "json": printable_json({text: text})},
    ).one()

    assert stored[0] == failure.message


def test_a_huge_message_keeps_head_and_tail() -> None:
    failure = of_exception(failing("head " + "x" * 5_000_000 + " tail"))

    assert_storable(failure)
    assert failure.message.startswith("head ")
    assert failure.message.endswith(" tail")
    assert "characters cut" in failure.message


@pytest.mark.parametrize("length", [0, 99, 100, 101, 140, 10_000])
def test_cut_middle_cuts_only_what_is_too_long(length: int) -> None:
    text = "x" * length

    cut = cut_middle(text, 100)

    assert len(cut) <= 100 + MARK
    assert (cut == text) is (length <= 100)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")

    __repr__ = __str__


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NotText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307


class Impostor(str):
    """Text that misbehaves when it is worked on."""

    def replace(self, *_args: Any, **_kw: Any) -> str:
        raise RuntimeError("hands off")

    encode = replace  # type: ignore[assignment]


class Odd(Exception):
    def __str__(self) -> str:
        return Impostor("odd \x00 text")


@pytest.mark.parametrize("error", [Unspeakable, Exits, NotText, Odd])
def test_an_exception_that_cannot_tell_its_text_is_a_failure_like_any_other(
    error: type[BaseException],
) -> None:
    failure = of_exception(failing("", error))

    assert_storable(failure)
    assert failure.error_class == error.__qualname__
    assert failure.traceback is not None
    assert "test_failure.py" in failure.traceback


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_exceptions_beyond_exception_are_described(error: type[BaseException]) -> None:
    assert of_exception(failing("out", error)).error_class == error.__name__


def test_a_long_class_name_is_cut() -> None:
    error = type("Bad" + "x" * 1000, (Exception,), {})

    failure = of_exception(failing("", error))

    assert_storable(failure)
    assert failure.error_class.startswith("Badxxx")


def test_a_recursion_is_described_with_both_its_ends() -> None:
    def dive(depth: int) -> int:
        return dive(depth + 1) + 1

    failure = of_exception(caught(lambda: dive(0)))

    assert_storable(failure)
    assert failure.error_class == "RecursionError"
    assert failure.traceback is not None
    assert "dive" in failure.traceback


def test_the_place_where_it_was_raised_survives_a_deep_stack() -> None:
    def dive(depth: int) -> None:
        if depth == 0:
            raise ValueError("at the bottom")
        climb(depth)

    def climb(depth: int) -> None:
        dive(depth - 1)

    failure = of_exception(caught(lambda: dive(200)))

    assert failure.traceback is not None
    assert 'raise ValueError("at the bottom")' in failure.traceback


def test_a_thousand_causes_are_cut() -> None:
    def chain() -> None:
        error: Exception = ValueError("the first")
        for number in range(1000):
            try:
                raise RuntimeError(f"cause {number}") from error
            except RuntimeError as raised:
                error = raised
        raise error

    failure = of_exception(caught(chain))

    assert_storable(failure)
    assert failure.message == "cause 999"


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert_storable(of_exception(first))


def test_a_source_line_that_cannot_be_shown_costs_the_source_alone() -> None:
    name = "<a template>"
    linecache.cache[name] = (1, None, ["raise \ud800\x00\n"], name)

    failure = of_exception(caught(lambda: exec(compile("1 / 0", name, "exec"))))

    assert (failure.error_class, failure.message) == ("ZeroDivisionError", "division by zero")
    assert failure.traceback is not None
    assert f'File "{name}", line 1' in failure.traceback
    assert failure.traceback.endswith("ZeroDivisionError: division by zero\n")
    assert_storable(failure)


def test_a_nested_group_is_described() -> None:
    error: Exception = ValueError("innermost")
    for depth in range(300):
        error = ExceptionGroup(f"level {depth}", [error])

    assert_storable(of_exception(error))


def raised_here(message: str) -> Failure:
    def handler() -> None:
        raise ValueError(message)

    return of_exception(caught(handler))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("job 17 failed", "job 18 failed"),
        ("no file 'a.txt'", "no file 'b.txt'"),
        ('key "x" missing', 'key "other" missing'),
        (
            "id 6f1c0e2a-0000-4000-8000-0123456789ab",
            "id 7a1c0e2a-1111-4000-8000-0123456789ff",
        ),
        ("object at 0x7f01aa", "object at 0x7f99bb"),
        ("digest deadbeefcafe0", "digest 0123456789abcdef"),
        ("first line\nsecond 1", "first line\nthe rest differs"),
    ],
)
def test_fingerprints_are_equal_where_only_details_differ(one: str, other: str) -> None:
    assert raised_here(one).fingerprint == raised_here(other).fingerprint


def test_fingerprints_differ_by_message_class_and_frames() -> None:
    found = {
        fingerprint("ValueError", "no host", ()),
        fingerprint("ValueError", "no route", ()),
        fingerprint("TypeError", "no host", ()),
        fingerprint("ValueError", "no host", ("mail.py:send",)),
        fingerprint("ValueError", "no host", ("mail.py:render",)),
    }

    assert len(found) == 5


def test_a_fingerprint_survives_moved_lines() -> None:
    source = "def handler():\n    raise ValueError('x')\n"
    moved = "\n\n\n# a comment\n" + source

    found = [_failure_of(code).fingerprint for code in (source, moved)]

    assert found[0] == found[1]


def test_a_fingerprint_depends_on_the_function_that_raised() -> None:
    one = "def handler():\n    raise ValueError('x')\n"
    other = "def inner():\n    raise ValueError('x')\ndef handler():\n    inner()\n"

    assert _failure_of(one).fingerprint != _failure_of(other).fingerprint


def test_a_file_name_outside_unicode_does_not_break_the_fingerprint() -> None:
    failure = _failure_of("def handler():\n    raise ValueError('x')\n", "/srv/caf\udce9/mail.py")

    assert_storable(failure)


def _failure_of(source: str, file: str = "/srv/app/mail.py") -> Failure:
    scope: dict[str, Any] = {}
    exec(compile(source, file, "exec"), scope)
    return of_exception(caught(scope["handler"]))
