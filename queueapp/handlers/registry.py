"""Which function runs which kind of job.

``@handler`` registers at import; ``load`` imports the built-in kinds and the modules of
QUEUE_HANDLERS. What a signature means for the payload is in ``signature``.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from queueapp.errors import SettingError
from queueapp.handlers.context import JobContext
from queueapp.handlers.people import must_be_docs, must_be_owner
from queueapp.handlers.signature import PayloadType, name_of, payload_type
from queueapp.jobs.names import KIND

F = TypeVar("F", bound=Callable[..., Any])

BUILT_IN = ("queueapp.handlers.demo", "queueapp.handlers.http_request")
MOST_ATTEMPTS = 10_000
LONGEST_TIMEOUT_S = 2**31 - 1

_handlers: dict[str, Handler] = {}


@dataclass(frozen=True)
class Handler:
    """One kind of job and what runs it. None: the job, or else the setting, decides."""

    kind: str
    function: Callable[..., Any]
    max_attempts: int | None
    timeout_s: int | None
    about: str
    payload_type: PayloadType = field(repr=False)
    owner: str | None = None
    docs: str | None = None

    def check(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Turn ``payload`` into the function's keyword arguments.

        Raises InvalidJob; its ``context["errors"]`` names each bad field, never a value.
        """
        return self.payload_type.check(payload)

    def check_json(self, payload: str) -> dict[str, Any]:
        """Do the same with a payload that is JSON text, as a claim has it."""
        return self.payload_type.check_json(payload)

    def call(self, context: JobContext, payload: dict[str, Any]) -> Any:
        """Check ``payload`` again and run the function: returns its result, raises its errors."""
        return self.invoke(context, self.check(payload))

    def invoke(self, context: JobContext, arguments: dict[str, Any]) -> Any:
        """Run the function with ``arguments`` that ``check`` has returned."""
        if self.payload_type.context_parameter is not None:
            arguments[self.payload_type.context_parameter] = context
        return self.function(**arguments)

    def schema(self) -> dict[str, Any]:
        """Describe the payload as JSON Schema."""
        return self.payload_type.schema()

    @property
    def place(self) -> str:
        """Where the function stands, for messages."""
        code = inspect.unwrap(self.function).__code__
        return f"{name_of(self.function)} ({code.co_filename}:{code.co_firstlineno})"


def handler(
    kind: str,
    *,
    max_attempts: int | None = None,
    timeout: int | None = None,
    about: str | None = None,
    owner: str | None = None,
    docs: str | None = None,
) -> Callable[[F], F]:
    """Register the function below as what runs ``kind``; the function itself stays as it is.

    ``max_attempts`` and ``timeout`` (whole seconds, 0 for none) are the defaults of its jobs;
    ``about`` is one line for people (default: the first line of the docstring), ``owner`` who
    answers for the kind, ``docs`` the address of the page that describes it (http or https). Raises
    TypeError or ValueError, here and at import, for what could only go wrong at run time.
    """
    _must_be_kind(kind)
    _must_be_within("max_attempts", max_attempts, 1, MOST_ATTEMPTS)
    _must_be_within("timeout", timeout, 0, LONGEST_TIMEOUT_S)
    must_be_owner(owner)
    must_be_docs(docs)

    def register(function: F) -> F:
        _must_be_plain_function(function)
        line = _first_line(function) if about is None else about
        takes = payload_type(function)
        _add(Handler(kind, function, max_attempts, timeout, line, takes, owner, docs))
        return function

    return register


def find(kind: str) -> Handler | None:
    """The handler of ``kind``; None when nothing here knows it."""
    return _handlers.get(kind)


def kinds() -> tuple[Handler, ...]:
    """Every registered handler, by kind."""
    return tuple(_handlers[kind] for kind in sorted(_handlers))


def load(modules: Sequence[str] = ()) -> None:
    """Import the built-in kinds and ``modules``. Raises SettingError that names a bad one."""
    for name in BUILT_IN:
        importlib.import_module(name)
    for name in modules:
        _import(name)


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    # The application's own code runs here and may raise anything; the setting is to be named.
    except Exception as error:
        raise SettingError(
            f"QUEUE_HANDLERS: cannot import {name!r}: {type(error).__name__}: {error}",
            setting="QUEUE_HANDLERS",
        ) from error


def _must_be_kind(kind: str) -> None:
    if not isinstance(kind, str):
        raise TypeError('@handler needs the kind it runs: @handler("mail.send")')
    if not KIND.fullmatch(kind):
        raise ValueError(
            f"{kind!r} is no kind: a lower-case letter, then at most 99 of a-z 0-9 _ . -"
        )


def _must_be_within(name: str, value: int | None, least: int, most: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {value}")


def _must_be_plain_function(function: Callable[..., Any]) -> None:
    if not inspect.isfunction(function):
        raise TypeError(f"@handler registers functions, not {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{name_of(function)} is async: handlers run in threads; call asyncio.run() inside"
        )
    if inspect.isgeneratorfunction(function):
        raise TypeError(f"{name_of(function)} is a generator: its body would never run")


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").strip().partition("\n")[0]


def _add(made: Handler) -> None:
    known = _handlers.get(made.kind)
    # The same line of the same file again is a reload, not a second handler.
    if known is not None and known.place != made.place:
        raise ValueError(f"{made.kind!r} has two handlers: {known.place} and {made.place}")
    _handlers[made.kind] = made
