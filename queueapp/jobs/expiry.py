"""Lift the pauses and holds whose time is over: by a line in the ledger, as anybody would."""

from __future__ import annotations

from datetime import datetime

from queueapp.jobs.control import LIFTS, LOCK, in_force, record, was
from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Reason

_TRY_TURN = f"SELECT pg_try_advisory_xact_lock({LOCK}) AS mine"
_NOW = "SELECT clock_timestamp() AS now"


def lift_expired(database: Database, *, actor: str) -> list[str]:
    """Lift the pauses and holds whose time is over by the database's clock; their scopes.

    Run it in a transaction of its own. While somebody else writes a switch nothing is lifted:
    come again.
    """
    if not run(database, _TRY_TURN)[0].mine:
        return []
    now: datetime = run(database, _NOW)[0].now
    latest = in_force(database).latest
    over = {scope: switch for scope, switch in latest.items() if switch.is_over(now)}
    for scope, switch in over.items():
        record(
            database,
            LIFTS[switch.event],
            scope=scope,
            actor=actor,
            reason=Reason.EXPIRED,
            data={"was": was(switch)},
        )
    return list(over)
