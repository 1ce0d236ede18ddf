"""What the log may keep of an unexpected exception: where it happened and of which class it is.

Messages of the database and of validation quote values (payloads, keys, passwords), so theirs are
left out; the traceback that ``logging`` would print holds them.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import psycopg
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError


def story(error: BaseException) -> str:
    """Tell ``error`` and what led to it, the cause first, without any value."""
    chapters = [
        "".join(traceback.format_tb(one.__traceback__)) + _headline(one) for one in _chain(error)
    ]
    return "\n\n".join(reversed(chapters))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)


def _headline(error: BaseException) -> str:
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    origin = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(origin, psycopg.Error):
        return f"{name}: SQLSTATE {origin.sqlstate}, constraint {origin.diag.constraint_name}"
    # Python's own messages of these repeat the value.
    if isinstance(error, SQLAlchemyError | ValidationError | ValueError | LookupError):
        return name
    return f"{name}: {error}"
