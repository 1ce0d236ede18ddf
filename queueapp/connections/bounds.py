"""How long each part of the product waits for the database: one table, by role.

``docs/time-outs.md`` shows it. Behind a transaction pooler no session settings are sent: there the
client's limit alone holds, and what ``ALTER ROLE`` sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from queueapp.config import Settings

# A thread that gets no connection of its pool in this time is told so.
POOL_S = 2.0
# A connection that has rested is asked whether it lives, for this long.
PING_S = 2.0
# The server's own time-out comes first: its answer says more than a closed connection.
SLACK_S = 1.0
# A request that was frozen in its transaction must not hold locks for long.
WEB_IDLE_TRANSACTION_S = 10.0
# A handler may think between two statements; a thread that never returns holds locks for ever.
HANDLER_IDLE_TRANSACTION_S = 3600.0


class Role(Enum):
    """What a connection is for."""

    WEB = "web"
    WORK = "work"
    HANDLER = "handler"
    COMMAND = "command"


@dataclass(frozen=True)
class Bounds:
    """Seconds; None: no bound of ours, so the server's and its roles' settings hold."""

    connect_s: float
    network_s: float
    query_s: float | None = None
    lock_s: float | None = None
    idle_transaction_s: float | None = None
    idle_s: float | None = None
    patience_s: float | None = None

    @property
    def limit_s(self) -> float | None:
        """The client's limit on a statement; without one of the server ``patience_s``."""
        return self.patience_s if self.query_s is None else self.query_s + SLACK_S

    def of_the_session(self) -> dict[str, str]:
        """The server's settings for these bounds."""
        named = {
            "statement_timeout": self.query_s,
            "lock_timeout": self.lock_s,
            "idle_in_transaction_session_timeout": self.idle_transaction_s,
            "idle_session_timeout": self.idle_s,
        }
        return {name: f"{int(s * 1000)}ms" for name, s in named.items() if s is not None}


def bounds_of(settings: Settings, role: Role) -> Bounds:
    """The bounds of ``role``."""
    connect_s, network_s = settings.connect_timeout, settings.network_timeout
    if role is Role.WEB:
        return Bounds(
            connect_s,
            network_s,
            settings.web_query_timeout,
            settings.lock_timeout,
            WEB_IDLE_TRANSACTION_S,
            settings.idle_timeout,
        )
    if role is Role.WORK:
        query_s = settings.work_query_timeout
        # A listener rests for ever, and so may the connections of an idle worker.
        return Bounds(connect_s, network_s, query_s, settings.lock_timeout, query_s, 0)
    if role is Role.HANDLER:
        idle_s = (
            max(HANDLER_IDLE_TRANSACTION_S, settings.job_timeout) if settings.job_timeout else 0
        )
        return Bounds(
            connect_s,
            network_s,
            idle_transaction_s=idle_s,
            idle_s=settings.idle_timeout,
            # Not less than any job may take, so that the thread comes back some day.
            patience_s=idle_s or None,
        )
    return Bounds(connect_s, network_s, None, settings.lock_timeout)
