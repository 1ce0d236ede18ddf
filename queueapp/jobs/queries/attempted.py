"""Reads that may fail without taking the others with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy.exc import DBAPIError

from queueapp.jobs.database import Database
from queueapp.jobs.queries.bounds import bound_reads

T = TypeVar("T")
D = TypeVar("D", bound=Database)

# query_canceled: it took too long; lock_not_available: a table is being changed.
_REASONS = {
    "57014": "the query took longer than {seconds:g} s and was stopped",
    "55P03": "the table is locked",
}


@dataclass(frozen=True)
class Reading(Generic[T]):
    """What was read, or why it could not be had."""

    value: T | None
    reason: str | None = None


def tried(database: D, read: Callable[[D], T], *, seconds: float = 2.0) -> Reading[T]:
    """Do one read; one that is stopped becomes a reason. A lost database is raised as ever."""
    try:
        return Reading(read(database))
    except DBAPIError as error:
        reason = _REASONS.get(getattr(error.orig, "sqlstate", None) or "")
        if reason is None:
            raise
        # The failed transaction takes no further statement; the next read begins a new one.
        database.rollback()
        bound_reads(database, seconds=seconds)
        return Reading(None, reason.format(seconds=seconds))
