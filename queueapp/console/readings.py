"""Reads that may fail without taking the page with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from queueapp.jobs.queries import bound_reads

T = TypeVar("T")
P = ParamSpec("P")

# query_canceled: it took too long; lock_not_available: a table is being changed.
_REASONS = {
    "57014": "the query took longer than 2 s and was stopped",
    "55P03": "the table is locked",
}


@dataclass(frozen=True)
class Reading(Generic[T]):
    """What was read, or why it could not be had."""

    value: T | None
    reason: str | None = None


def tried(
    session: Session,
    read: Callable[Concatenate[Session, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Reading[T]:
    """Do one read; one that is stopped becomes a reason. A lost database is raised as ever."""
    try:
        return Reading(read(session, *args, **kwargs))
    except DBAPIError as error:
        reason = _REASONS.get(getattr(error.orig, "sqlstate", None) or "")
        if reason is None:
            raise
        # The failed transaction takes no further statement; the next read begins a new one.
        session.rollback()
        bound_reads(session)
        return Reading(None, reason)


def part(reading: Reading[Any], field: str) -> Reading[Any]:
    """One attribute of what was read."""
    return Reading(getattr(reading.value, field, None), reading.reason)
