"""Reads that may fail without taking the page with them, and those that all tabs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from flask import Flask, current_app
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from queueapp.at_once import at_once
from queueapp.console.answers import timer_life_s
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import Pulse, attempted
from queueapp.jobs.queries.attempted import Reading
from queueapp.shared import Shared
from queueapp.shared_readings import share, unavailable

T = TypeVar("T")
P = ParamSpec("P")

__all__ = ["Reading", "bounded", "noticed", "part", "pulse_of", "tried"]


def init_app(app: Flask) -> None:
    """Let ``app`` share the pulse."""
    app.extensions["queue_pulse"] = share(app, lambda: _take_pulse(app))


def _take_pulse(app: Flask) -> Pulse:
    with app.app_context():
        return noticed(queries.pulse)


def pulse_of(*, every_s: float = 5.0) -> Pulse:
    """The queue's pulse: of this moment, or taken once for all pages that ask by themselves.

    ``every_s``: how often this page does. Raises DatabaseUnavailable when it cannot be taken.
    """
    life_s = timer_life_s(every_s)
    if life_s is None:
        return noticed(queries.pulse)
    shared: Shared[Pulse] = current_app.extensions["queue_pulse"]
    snapshot = shared.get(life_s=life_s)
    # Nothing that is known of a list could be shown beside it: the page keeps what it has.
    if snapshot.failure or snapshot.present is None:
        raise unavailable(snapshot)
    return snapshot.present


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
    """The request's session, the reads of its present transaction bounded."""
    session = db.session()
    if not session.in_transaction():
        queries.bound_reads(session)
    return session
