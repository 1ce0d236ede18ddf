"""What a web process knows for workers that lease over HTTP: what is paused, and who was there.

A ``flask work`` has its housekeeping for that. Here requests do it, each at most so often.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from queueapp.jobs import control
from queueapp.jobs.autocommit import is_autocommit, one_transaction
from queueapp.jobs.control import Controls
from queueapp.jobs.database import Database
from queueapp.jobs.expiry import lift_expired
from queueapp.jobs.status import Event

# A pause is heeded within 2 s of the answer to whoever asked for it.
LOOK_EVERY_S = 1.0
# Switches of the last day are read each time, all of them now and then.
RECENT = timedelta(days=1)
ALL_EVERY_S = 60.0
SEEN_EVERY_S = 60.0
# Who renews is there as well, for so long after it has last asked for work.
STAYS_S = 3600.0
MOST_REMEMBERED = 1000
# Who lifts what is over where no worker's housekeeping does.
_WEB = "housekeeping:web"


class Switches:
    """What is paused and held, as of a second ago."""

    def __init__(self) -> None:
        self._controls = Controls()
        self._look_at = self._all_at = 0.0
        self._lock = threading.Lock()

    def now(self, database: Database) -> Controls:
        """Look, unless somebody just has."""
        with self._lock:
            began = time.monotonic()
            if began >= self._look_at:
                whole = began >= self._all_at
                since = None if whole else datetime.now(UTC) - RECENT
                self._controls.merge(control.in_force(database, since=since))
                # Where nobody keeps a ``flask work``, a pause would have no end.
                if self._controls.any_over(datetime.now(UTC)) and _lift_expired(database):
                    self._controls.merge(control.in_force(database, since=since))
                self._look_at = began + LOOK_EVERY_S
                if whole:
                    self._all_at = began + ALL_EVERY_S
            return self._controls


def _lift_expired(database: Database) -> bool:
    """Lift the pauses and holds whose time is over; whether there were any."""
    if isinstance(database, Connection) and is_autocommit(database):
        with one_transaction(database):
            return bool(lift_expired(database, actor=_WEB))
    return bool(lift_expired(database, actor=_WEB))


@dataclass
class _Sign:
    actor: str
    data: dict[str, Any]
    asked_at: float
    written_at: float


class Presence:
    """Writes ``worker_seen`` for who asks for leases, one scope for each set of kinds."""

    def __init__(self) -> None:
        self._signs: OrderedDict[str, _Sign] = OrderedDict()
        self._lock = threading.Lock()

    def asks(
        self, database: Database, actor: str, kinds: Sequence[str], *, slots: int, lease_s: float
    ) -> None:
        """Somebody asks for jobs of these kinds."""
        kinds = sorted(kinds)
        digest = hashlib.sha256(",".join(kinds).encode()).hexdigest()[:8]
        data = {"slots": slots, "kinds": kinds, "lease_s": lease_s, "via": "api"}
        scope, now = f"worker:{actor}:{digest}", time.monotonic()
        with self._lock:
            sign = self._signs.pop(scope, None) or _Sign(actor, data, now, -SEEN_EVERY_S)
            sign.data, sign.asked_at = data, now
            self._signs[scope] = sign
            while len(self._signs) > MOST_REMEMBERED:
                self._signs.popitem(last=False)
        self._write(database, {scope: sign}, now)

    def renews(self, database: Database, actor: str) -> None:
        """Somebody is at work, and may have no time to ask for more."""
        now = time.monotonic()
        with self._lock:
            own = {scope: sign for scope, sign in self._signs.items() if sign.actor == actor}
            # What it asked for last it will ask for again, however long its job takes.
            newest = max((sign.asked_at for sign in own.values()), default=now)
            least = min(newest, now - STAYS_S)
            mine = {scope: sign for scope, sign in own.items() if sign.asked_at >= least}
        self._write(database, mine, now)

    def _write(self, database: Database, signs: dict[str, _Sign], now: float) -> None:
        for scope, sign in signs.items():
            if now >= sign.written_at + SEEN_EVERY_S:
                sign.written_at = now
                control.record(
                    database, Event.WORKER_SEEN, scope=scope, actor=sign.actor, data=sign.data
                )
