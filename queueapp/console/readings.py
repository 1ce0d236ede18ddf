"""Reads that may fail without taking the page with them, and those that all tabs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from flask import Flask
from sqlalchemy.orm import Session

from queueapp import judgement
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import attempted
from queueapp.jobs.queries.attempted import Reading
from queueapp.shared import Shared

T = TypeVar("T")
P = ParamSpec("P")

__all__ = ["Reading", "part", "share", "tried"]


def share(app: Flask, read: Callable[[Session], T]) -> Shared[T]:
    """What ``read`` gives in a bounded session of its own, read once for all of ``app``'s tabs."""

    def look() -> T:
        with app.app_context(), Session(db.engine) as session:
            queries.bound_reads(session)
            return read(session)

    return judgement.share(app, look)


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
