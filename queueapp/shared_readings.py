"""What this process reads once for all who ask, and what they are told where it cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from flask import Flask
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from queueapp.errors import DatabaseUnavailable, QueueError
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.local_postgres import LocalPostgresUnavailable
from queueapp.shared import Shared, Snapshot, life_s, wait_s

T = TypeVar("T")

_RETRY_AFTER = 5
_TRY_AGAIN = "; try again"


def share(app: Flask, read: Callable[[], T]) -> Shared[T]:
    """What ``read`` gives, read once for all of ``app``'s threads; failures are named as here."""
    return Shared(read, life_s=life_s(app), wait_s=wait_s(app), name_failure=name_failure)


def share_bounded(app: Flask, read: Callable[[Session], T]) -> Shared[T]:
    """The same, where ``read`` is given a session of its own with ``queries.bound_reads``."""

    def look() -> T:
        with app.app_context(), Session(db.engine) as session:
            queries.bound_reads(session)
            return read(session)

    return share(app, look)


def present(snapshot: Snapshot[T]) -> T:
    """What a shared reading says of now. Raises DatabaseUnavailable where it says nothing."""
    if snapshot.present is None:
        raise unavailable(snapshot)
    return snapshot.present


def unavailable(snapshot: Snapshot[Any]) -> DatabaseUnavailable:
    """What to raise where nothing can be shown without a reading of now."""
    return DatabaseUnavailable(f"{snapshot.why_not}{_TRY_AGAIN}", retry_after=_RETRY_AFTER)


def name_failure(error: Exception) -> str | None:
    """In words what kept us from reading; None for what is no matter of the database.

    They stand within a sentence, which says itself what to do.
    """
    if isinstance(error, QueueError | LocalPostgresUnavailable):
        return str(error).removesuffix(_TRY_AGAIN)
    if not isinstance(error, SQLAlchemyError | psycopg.Error):
        return None
    origin = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(origin, "sqlstate", None)
    return f"the database refused ({state})" if state else "the database does not answer"
