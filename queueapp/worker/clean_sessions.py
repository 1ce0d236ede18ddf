"""What one handler sets in a database session, no later one finds.

The application's pool hands the connection of one job to the next. Rolling back undoes neither SET
(of a time-out, a search path, a role) nor a temporary table, a LISTEN or an advisory lock.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event


def clean_sessions(engine: Engine) -> None:
    """Have every connection of ``engine`` begin afresh when it is given back.

    Not behind a pooler in transaction mode: there the words would reach somebody else's session.
    """
    event.listen(engine, "reset", _discard)


def _discard(connection: Any, _record: Any, state: Any) -> None:
    """Forget the session's state. What raises here has the pool throw the connection away."""
    if state.terminate_only or connection.closed:
        return
    connection.rollback()
    before = connection.autocommit
    connection.autocommit = True
    try:
        connection.execute("DISCARD ALL")
    finally:
        connection.autocommit = before
