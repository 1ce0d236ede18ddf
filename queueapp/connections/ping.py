"""Whether a pooled connection still lives: a look at its socket where that is enough.

Asking the server costs a request as much as its own statement. A server that went away has said so
on the socket; only silence cannot be seen there, so what has rested longer is asked.
"""

from __future__ import annotations

import select
import time
from typing import Any

import psycopg
from sqlalchemy import Engine, event

# The longest that a vanished server can go unnoticed by this; then the statement finds out.
FRESH_S = 1.0


def look_before_asking(engine: Engine) -> None:
    """Have the pool of ``engine`` ask only those connections of which a look says too little."""
    dialect: Any = engine.dialect
    ask = dialect.do_ping

    @event.listens_for(engine, "checkin")
    def _rests(connection: Any, _record: Any) -> None:
        if connection is not None:
            connection.rests_since = time.monotonic()

    def do_ping(connection: Any) -> bool:
        rested_s = time.monotonic() - connection.rests_since
        return (rested_s < FRESH_S and is_quiet(connection)) or bool(ask(connection))

    dialect.do_ping = do_ping


def is_quiet(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server has said nothing since the last answer: no notice, no farewell."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return not poll.poll(0)
