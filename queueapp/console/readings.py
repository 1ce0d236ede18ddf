"""Reads that may fail without taking the page with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy.orm import Session

from queueapp.jobs.queries import attempted
from queueapp.jobs.queries.attempted import Reading

T = TypeVar("T")
P = ParamSpec("P")

__all__ = ["Reading", "part", "tried"]


def tried(
    session: Session,
    read: Callable[Concatenate[Session, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Reading[T]:
    """Do one read; one that is stopped becomes a reason. A lost database is raised as ever."""
    return attempted.tried(session, lambda open_: read(open_, *args, **kwargs))


def part(reading: Reading[Any], field: str) -> Reading[Any]:
    """One attribute of what was read."""
    return Reading(getattr(reading.value, field, None), reading.reason)
