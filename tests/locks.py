"""Whether somebody waits for a lock."""

from __future__ import annotations

from sqlalchemy import Engine, text

from tests.live.processes import until

_AWAITED = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = :of")


def until_a_lock_is_awaited(engine: Engine, of: str = "transactionid") -> None:
    """Go on once a session waits: for another transaction's end, or for an ``advisory`` lock."""
    with engine.connect() as connection:
        until(lambda: connection.scalar(_AWAITED, {"of": of}), f"a lock of {of} is awaited")
