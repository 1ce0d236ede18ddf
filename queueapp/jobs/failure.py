"""What is kept of a failure: class, message, fingerprint, traceback – cut, and fit to be stored.

PostgreSQL stores neither NUL nor lone surrogates, so both are made visible here, before a batch of
outcomes could be refused for one of them. Pure: no database.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

NAME_LIMIT = 200
MESSAGE_LIMIT = 8 * 1024
TRACEBACK_LIMIT = 64 * 1024
# Of lists and objects in each other. Our encoder (pydantic_core) ends at 255, ours around included.
NESTING_LIMIT = 200
# Of a deep stack the innermost frames are kept: they say where it was raised.
_FRAMES = 60
# What the note about a cut may add.
_MARK = 40
_LIBRARIES = tuple(
    {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_OWN_PACKAGE = __file__.rsplit("/", 2)[0]
# What differs between two occurrences of the same failure: quoted text, ids, numbers.
_VARIABLE = re.compile(
    r"'[^']*'|\"[^\"]*\"|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\d+"
)


@dataclass(frozen=True)
class Failure:
    """One failure as it is stored. ``traceback`` goes to the ledger only."""

    error_class: str
    message: str
    fingerprint: str
    traceback: str | None = None


def printable(text: str) -> str:
    """Make NUL and lone surrogates visible; everything else stays as it is."""
    # str's own method: what an exception returns may be a subclass with other ideas.
    visible = str.replace(text, "\x00", "\\x00")
    return visible.encode("utf-8", "backslashreplace").decode("utf-8")


def printable_json(value: Any, levels: int = NESTING_LIMIT) -> Any:
    """The same for every string and key within a JSON value.

    Raises RecursionError beyond ``levels`` of lists and objects within each other.
    """
    if isinstance(value, str):
        return printable(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if levels == 0:
        raise RecursionError(f"nested deeper than {NESTING_LIMIT} levels")
    if isinstance(value, dict):
        return {
            printable_json(key, levels - 1): printable_json(item, levels - 1)
            for key, item in value.items()
        }
    return [printable_json(item, levels - 1) for item in value]


def _fitting(text: str, limit: int) -> str:
    """Fit to be stored, and cut. Cut first: an enormous text is not copied whole."""
    visible = printable(cut_middle(text, limit))
    return visible if len(visible) <= limit + _MARK else cut_middle(visible, limit)


def cut_middle(text: str, limit: int) -> str:
    """Cut ``text`` to about ``limit`` characters, head and tail kept: both tell something."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[-(limit // 3) :]
    return f"{head}\n… {len(text) - limit} characters cut …\n{tail}"


def described(error_class: str, message: str, trace: str | None = None) -> Failure:
    """A failure that no exception of ours stands for, such as a lost lease."""
    trace = None if trace is None else _fitting(trace, TRACEBACK_LIMIT)
    return _failure(error_class, message, trace=trace)


def of_exception(error: BaseException) -> Failure:
    """Describe ``error``, whatever its class does when it is asked for its text."""
    return _failure(
        type(error).__qualname__,
        _text(error),
        _own_frames(error.__traceback__),
        _fitting(_traceback(error), TRACEBACK_LIMIT),
    )


def _failure(
    name: str, text: str, frames: tuple[str, ...] = (), trace: str | None = None
) -> Failure:
    name = _fitting(name, NAME_LIMIT)
    message = _fitting(text, MESSAGE_LIMIT)
    return Failure(name, message, fingerprint(name, message, frames), trace)


def fingerprint(error_class: str, message: str, frames: tuple[str, ...]) -> str:
    """Sixteen hex digits that are equal for failures with one cause.

    From the class, the first line of the message with its variable parts blanked, and the
    application's own frames without line numbers: a deploy that moves lines keeps the group.
    """
    text = "\n".join((error_class, blanked(message), *frames))
    return hashlib.sha256(printable(text).encode()).hexdigest()[:16]


def blanked(message: str) -> str:
    """What messages of one cause have in common: the first line, with ? for what varies."""
    return _VARIABLE.sub("?", message.partition("\n")[0][:500])


def _text(error: BaseException) -> str:
    try:
        # A plain str, whatever subclass an exception gives as its text.
        return str.__str__(str(error))
    except BaseException:
        return f"<the text of {type(error).__qualname__} cannot be had>"


def _traceback(error: BaseException) -> str:
    try:
        whole = traceback.TracebackException.from_exception(error, limit=-_FRAMES, compact=True)
        # The message is among the pieces: frames and causes are not to be cut away for it.
        return "".join(cut_middle(piece, MESSAGE_LIMIT) for piece in whole.format())
    # A line of source may be what cannot be shown: a lone surrogate in one is enough.
    except BaseException:
        last = f"{type(error).__qualname__}: {_text(error)}\n"
        return "".join(_bare_frames(error.__traceback__)) + cut_middle(last, MESSAGE_LIMIT)


def _bare_frames(trace: TracebackType | None) -> Iterator[str]:
    """The innermost frames without their source."""
    yield "Traceback (most recent call last), without source:\n"
    for frame, line in deque(traceback.walk_tb(trace), _FRAMES):
        yield f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}\n'


def _own_frames(trace: TracebackType | None) -> tuple[str, ...]:
    frames: list[str] = []
    while trace is not None and len(frames) < 1000:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith((*_LIBRARIES, _OWN_PACKAGE + "/worker")):
            frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_qualname}")
        trace = trace.tb_next
    return tuple(frames[-5:])
