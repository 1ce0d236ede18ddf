"""Reads that may fail without taking the page with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from queueapp.at_once import at_once
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import attempted
from queueapp.jobs.queries.attempted import Reading

T = TypeVar("T")
P = ParamSpec("P")

__all__ = ["Reading", "bounded", "noticed", "part", "tried"]


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


def noticed(
    look: Callable[Concatenate[Session | Connection, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """What tells whether anything is new, in one round trip: a poll mostly needs no other."""
    with at_once() as database:
        return look(database, *args, **kwargs)


def bounded() -> Session:
    """The request's session, its reads bounded."""
    session = db.session()
    queries.bound_reads(session)
    return session
