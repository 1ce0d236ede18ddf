"""What people type after a command, read and checked; a refusal names the value and a way out."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from queueapp.api.strict_json import parse
from queueapp.config import readers
from queueapp.errors import QueueError
from queueapp.handlers.json_limits import text_problem
from queueapp.handlers.request import LEAST_PRIORITY, MOST_PRIORITY, instant

PRIORITY = click.IntRange(LEAST_PRIORITY, MOST_PRIORITY)


class Duration(click.ParamType[float]):
    """Seconds, from ``90``, ``90s``, ``5m`` or ``1h``; ``read`` may ask for more."""

    name = "duration"

    def __init__(self, read: Callable[[str], float] = readers.duration) -> None:
        self._read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        try:
            return self._read(str(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class Size(click.ParamType[int]):
    """Bytes, from ``512MB`` or ``2GB``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        try:
            return readers.size(str(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class Instant(click.ParamType[datetime]):
    """A moment with its offset from UTC."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read it."""
        try:
            return instant(value)
        except ValueError as error:
            said = str(error) if str(error).startswith("must") else "is no such date or time"
            self.fail(f"{value!r} {said}", param, ctx)
        except OverflowError:
            self.fail(f"{value!r} is no such date or time in UTC", param, ctx)


class JobId(click.ParamType[int]):
    """The number of a job."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        text = str(value)
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**63):
            self.fail(f"{value!r} is no job id: ids are whole numbers from 1", param, ctx)
        return int(text)


class Text(click.ParamType[str]):
    """Text that the database can store."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check it."""
        problem = text_problem(str(value))
        if problem:
            said = problem if "\0" in str(value) else "is not UTF-8 text"
            self.fail(f"{value!a} {said}", param, ctx)
        return str(value)


class Why(Text):
    """A reason that has to be given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check it."""
        if not str(value).strip():
            self.fail("say why: whoever finds the job held will want to know", param, ctx)
        return super().convert(value, param, ctx)


class Payload(click.ParamType[Any]):
    """JSON as it stands, ``@file`` or ``-`` for standard input."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        try:
            return parse(self._bytes(value))
        except OSError as error:
            self.fail(f"cannot read {value[1:]!r}: {error.strerror}", param, ctx)
        except QueueError as error:
            shown = value if len(value) <= 60 else value[:60] + "…"
            hint = """quote it for the shell: '{"message": "hello"}'"""
            self.fail(f"{shown!r}: {error.message}; {hint}", param, ctx)

    @staticmethod
    def _bytes(value: str) -> bytes:
        if value == "-":
            return sys.stdin.buffer.read()
        if value.startswith("@"):
            return Path(value[1:]).read_bytes()
        return value.encode("utf-8", "surrogateescape")


def actor() -> str:
    """Who sits at this command line, as the ledger will have it."""
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"cli:{os.getuid()}"


def refuse_name(name: str) -> None:
    """Raise UsageError for a name that would break the entry it becomes a part of."""
    if ":" in name or len(name.split()) > 1:
        raise click.UsageError(f"the name {name!r} may hold no colon and no white space")
