"""What went wrong, said so that a caller can act on it: any exception becomes a ``Problem``.

Nothing here repeats a statement, its parameters or what the database says about values.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import psycopg
from flask import current_app, has_app_context, request
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException

from queueapp.connections import address_of
from queueapp.errors import (
    BadRequest,
    BodyTooLarge,
    DatabaseUnavailable,
    MethodNotAllowed,
    NotAllowed,
    NotAuthenticated,
    NotJson,
    PageNotFound,
    QueueError,
    SchemaMismatch,
)
from queueapp.local_postgres import LocalPostgresUnavailable

RETRY_AFTER = 5

_MISSING = ("42P01", "42703")  # a table, a column
_BUSY = {
    "25006": "the database is read-only at the moment",
    "25P03": "the database gave this request's transaction up",
    "53100": "the database's disk is full",
    "53200": "the database has no memory left",
    "53300": "the database has no connection left",
    "57014": "the database cancelled the query because it took too long",
}

_NAMED: dict[int, type[QueueError]] = {
    400: BadRequest,
    403: NotAllowed,
    404: PageNotFound,
    405: MethodNotAllowed,
    413: BodyTooLarge,
    415: NotJson,
}


@dataclass(frozen=True)
class Problem:
    """One failure as every surface shows it."""

    status: int
    code: str
    title: str
    detail: str
    context: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()


def problem_of(error: Exception) -> Problem:
    """Say what ``error`` means to the caller of the present request."""
    known = deliberate(error)
    if known is not None:
        return _of_queue_error(known)
    if isinstance(error, HTTPException):
        return _of_router(error)
    return Problem(
        500,
        "internal_error",
        "Something went wrong here",
        "this is a fault of the server; its log has the details under the request id",
    )


def deliberate(error: BaseException) -> QueueError | None:
    """The failure that a caller can act on; None when ``error`` is a fault of ours."""
    if isinstance(error, QueueError):
        return error
    if isinstance(error, PoolTimeout):
        return _unavailable("all database connections of this process are in use; try again")
    if isinstance(error, LocalPostgresUnavailable):
        return DatabaseUnavailable(" ".join(str(error).split()), retry_after=RETRY_AFTER)
    origin = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(origin, sqlite3.OperationalError):
        return _of_sqlite(origin)
    if not isinstance(origin, psycopg.Error):
        return None
    return _of_database(origin)


def _of_database(origin: psycopg.Error) -> QueueError | None:
    state = origin.sqlstate
    if state in _MISSING:
        return SchemaMismatch(
            "the database lacks a table or column of this release: run flask db upgrade"
        )
    if state in _BUSY:
        return _unavailable(f"{_BUSY[state]}; try again")
    if not isinstance(origin, psycopg.OperationalError | psycopg.InterfaceError):
        return None
    if state is None or state.startswith(("08", "28", "3D", "57P")):
        return _unavailable(f"{_no_answer()}, or try again")
    return _unavailable("the database could not do this just now; try again")


def _no_answer() -> str:
    """Who does not answer, and what to do: without DATABASE_URL it is a server of our own."""
    if has_app_context() and address_of(current_app).is_of_this_folder:
        return (
            "the local PostgreSQL under instance/ does not answer: run any command of this folder,"
            " such as flask system, which starts it"
        )
    return "the database does not answer: check DATABASE_URL"


def _of_sqlite(origin: sqlite3.OperationalError) -> QueueError | None:
    said = str(origin)
    if said.startswith(("no such table", "no such column")):
        return SchemaMismatch(
            "the database lacks a table or column of this release: run flask db upgrade"
        )
    if "locked" in said or "busy" in said:
        return _unavailable("somebody else has been writing to the database for long; try again")
    if said.startswith(
        ("unable to open", "attempt to write a readonly", "disk I/O", "database or")
    ):
        return _unavailable(
            "the database's file cannot be used: check DATABASE_URL and the disk;"
            " flask db upgrade makes a file that is missing"
        )
    return None


def _unavailable(message: str) -> DatabaseUnavailable:
    return DatabaseUnavailable(message, retry_after=RETRY_AFTER)


def _of_queue_error(error: QueueError, headers: tuple[tuple[str, str], ...] = ()) -> Problem:
    if isinstance(error, NotAuthenticated):
        headers = (*headers, ("WWW-Authenticate", 'Bearer realm="queue"'))
    if "retry_after" in error.context:
        headers = (*headers, ("Retry-After", str(error.context["retry_after"])))
    return Problem(error.status, error.code, error.title, error.message, error.context, headers)


def _of_router(error: HTTPException) -> Problem:
    status = error.code or 500
    headers = tuple(
        (name, value)
        for name, value in error.get_headers()
        if name.lower() not in ("content-type", "content-length")
    )
    known = _named(status, error)
    if known is not None:
        return _of_queue_error(known, headers)
    # Every status without a class of its own: 408, 414, 417, 431 and their like.
    title = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Refused"
    return Problem(status, f"http_{status}", title, error.description or title, {}, headers)


def _named(status: int, error: HTTPException) -> QueueError | None:
    if status not in _NAMED:
        return None
    limit = request.max_content_length  # of this route
    plainer = {
        404: f"there is nothing at {request.path[:200]}",
        405: f"{request.method} does not work here; the header Allow says what does",
        413: f"the body may have {limit} bytes at most",
    }
    return _NAMED[status](plainer.get(status, error.description or ""))
