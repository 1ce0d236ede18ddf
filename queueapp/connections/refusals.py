"""What no waiting mends: a database that answered, and does not take us with this address."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

# A refused connection has no SQLSTATE for the client, only words: in another language than this one
# it is told as a database that does not answer, and waited out.
_WORDS = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
)


def refusal(error: BaseException, url: str) -> str | None:
    """Why there will be no connection with this address, in one line; None while there may be."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(origin, psycopg.OperationalError) and origin.sqlstate is None:
        for line in str(origin).splitlines():
            if any(words in line for words in _WORDS):
                return f"the database refuses this connection: check DATABASE_URL ({line.strip()})"
    if isinstance(origin, sqlite3.DatabaseError):
        return _of_file(str(origin), Path(make_url(url).database or ""))
    return None


def _of_file(said: str, path: Path) -> str | None:
    if said.startswith("file is not a database"):
        return f"DATABASE_URL: {path} is no database of SQLite"
    if not said.startswith("unable to open"):
        return None
    if path.exists():
        return f"DATABASE_URL: {path} is a folder" if path.is_dir() else None
    if path.parent.is_dir():
        return f"DATABASE_URL: there is no file {path}; flask db upgrade makes it"
    return f"DATABASE_URL: there is no folder {path.parent} for the file {path.name}"
