"""How the domain talks to PostgreSQL: any SQLAlchemy Session or Connection in, rows out.

Statements are written once, as constants in psycopg's own form (``%(name)s``), and are sent as they
stand: nothing is compiled per call. Whoever opened the session commits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row
from sqlalchemy.orm import Session

# flask_sqlalchemy's db.session is a scoped_session: pass ``db.session()``.
Database: TypeAlias = Session | Connection


def connection_of(database: Database) -> Connection:
    """The connection that ``database`` works on, its transaction begun if need be."""
    return database.connection() if isinstance(database, Session) else database


def run(database: Database, statement: str, **parameters: Any) -> Sequence[Row[Any]]:
    """Execute ``statement`` and return its rows; none for a statement without an answer."""
    result = connection_of(database).exec_driver_sql(statement, parameters)
    return result.all() if result.returns_rows else ()


# In ``Session.info``: this session has made jobs due; tell the workers once it has committed.
WAKE = "queueapp_wake"
CHANNEL = "queueapp_wake"


def wake_on_commit(database: Database) -> None:
    """Have idle workers woken when the work of ``database`` is committed.

    A Session says so after its commit (``queueapp.notifier``): a NOTIFY inside the transaction
    would make concurrent producers queue for one lock. A bare Connection has no hook after its
    commit, so its NOTIFY rides in the transaction: right, and slower with many producers.
    """
    if isinstance(database, Session):
        database.info[WAKE] = True
    else:
        run(database, f"NOTIFY {CHANNEL}")
