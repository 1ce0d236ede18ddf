"""Reads that may fail without taking the page with them, and those that all tabs share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from flask import Flask, current_app
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from queueapp.at_once import at_once
from queueapp.console.answers import timer_life_s
from queueapp.errors import QueueError
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import Pulse, attempted
from queueapp.jobs.queries.attempted import Reading
from queueapp.shared import Shared, life_s
from queueapp.shared_readings import share, unavailable

T = TypeVar("T")
P = ParamSpec("P")

# Jobs, operations and workers that somebody looks at: of the latest one reading each is kept.
MOST_GLANCES = 200

__all__ = ["Reading", "bounded", "glance_at", "noticed", "part", "pulse_of", "tried"]


@dataclass(frozen=True)
class _Seen(Generic[T]):
    """What a glance found; ``refusal``: that there is no such thing, which is no failure."""

    found: T | None
    refusal: QueueError | None = None


class Glances:
    """Readings of single things, each shared by all who look at it; ``life_s`` as in ``Shared``."""

    def __init__(self, app: Flask) -> None:
        self.life_s = life_s(app)
        self._app = app
        self._lock = threading.Lock()
        self._kept: dict[Hashable, Shared[_Seen[Any]]] = {}

    def of(self, key: Hashable, read: Callable[[], T]) -> Shared[_Seen[T]]:
        """That of ``key``, which ``read`` gives within a context of the application."""
        with self._lock:
            shared = self._kept.pop(key, None)
            if shared is None:
                shared = share(self._app, lambda: self._see(read))
                shared.life_s = self.life_s
            # Last is who was asked for last.
            self._kept[key] = shared
            for old in list(self._kept)[:-MOST_GLANCES]:
                del self._kept[old]
        return shared

    def forget(self) -> None:
        """Whoever asks next has anything read anew."""
        with self._lock:
            self._kept.clear()

    def _see(self, read: Callable[[], T]) -> _Seen[T]:
        with self._app.app_context():
            try:
                return _Seen(read())
            except QueueError as refusal:
                if refusal.status >= 500:
                    raise
                return _Seen(None, refusal)


def init_app(app: Flask) -> None:
    """Let ``app`` share the pulse, and glances at single things."""
    app.extensions["queue_pulse"] = share(app, lambda: _take_pulse(app))
    app.extensions["queue_glances"] = Glances(app)


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
    return _of_now(shared, life_s)


def glance_at(key: Hashable, read: Callable[[], T], *, every_s: float = 2.0) -> T:
    """What ``read`` gives: now, or once for all pages of ``key`` that ask by themselves.

    It must not depend on who asks, and what it gives must be of no session: others will have it.
    ``every_s``: how often the page asks. Raises what ``read`` does, and DatabaseUnavailable.
    """
    life_s = timer_life_s(every_s)
    if life_s is None:
        return read()
    glances: Glances = current_app.extensions["queue_glances"]
    seen = _of_now(glances.of(key, read), life_s)
    if seen.refusal is not None:
        raise type(seen.refusal)(seen.refusal.message, **seen.refusal.context)
    return cast(T, seen.found)


def _of_now(shared: Shared[T], life_s: float) -> T:
    snapshot = shared.get(life_s=life_s)
    # Nothing that is known could be shown beside it: the page keeps what it has.
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
