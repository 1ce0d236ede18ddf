"""Carry out the holds on kinds: park their waiting jobs, bring them back when a hold is lifted.

A few statements a tick, each bounded, each going on from where the last one ended: the head of the
queue is never filtered for long.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from queueapp.jobs import transitions
from queueapp.jobs.control import Controls
from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Reason

BATCH = 500
SCAN = 20_000
# Looked at even when no hold changed: another worker may have died half way.
BACK_EVERY_TICKS = 40
# How long one tick may bring jobs back: housekeeping hears of pauses and holds between two.
TURN_S = 0.2

_START = (32767, "-infinity", "-infinity", 0)

# Keyset over the claim's own order; ``scanned`` rows are looked at, those of held kinds taken. In
# two parts, so that each begins in the index where it has to: the rest of the priority that the
# walk has come to, and what is below it.
_NEXT_QUEUED = """
WITH level AS MATERIALIZED (
  SELECT id, kind, priority, available_at, created_at FROM jobs
  WHERE status = 'queued' AND priority = %(priority)s AND (available_at, created_at, id)
    > (%(available_at)s::timestamptz, %(created_at)s::timestamptz, %(id)s)
  ORDER BY available_at, created_at, id LIMIT %(scan)s
),
below AS MATERIALIZED (
  SELECT id, kind, priority, available_at, created_at FROM jobs
  WHERE status = 'queued' AND priority < %(priority)s
  ORDER BY priority DESC, available_at, created_at, id
  LIMIT %(scan)s - (SELECT count(*) FROM level)
),
scanned AS MATERIALIZED (SELECT * FROM level UNION ALL SELECT * FROM below),
last AS (
  SELECT * FROM scanned ORDER BY priority, available_at DESC, created_at DESC, id DESC LIMIT 1
)
SELECT (SELECT array_agg(id) FROM scanned WHERE kind = ANY(%(kinds)s)) AS ids,
  (SELECT count(*) FROM scanned) AS scanned,
  l.priority, l.available_at, l.created_at, l.id
FROM last l
"""

# A loose scan over the kinds that have jobs held for them: one probe each.
HELD_KINDS = """
WITH RECURSIVE k AS (
  (SELECT kind FROM jobs WHERE status = 'held' AND held_for = 'kind' ORDER BY kind LIMIT 1)
  UNION ALL
  SELECT (SELECT j.kind FROM jobs j
          WHERE j.status = 'held' AND j.held_for = 'kind' AND j.kind > k.kind ORDER BY kind LIMIT 1)
  FROM k WHERE k.kind IS NOT NULL
)
SELECT kind FROM k WHERE kind IS NOT NULL
"""

_HELD_OF = """
SELECT id FROM jobs WHERE status = 'held' AND held_for = 'kind' AND kind = %(kind)s
  AND id > %(after)s
ORDER BY id LIMIT %(limit)s
"""


class Holds:
    """Where the moving of held kinds stands."""

    def __init__(self) -> None:
        self._place: tuple[Any, ...] = _START
        self._held: tuple[str, ...] = ()
        self._countdown = 0

    def tick(self, database: Database, controls: Controls, now: datetime, *, actor: str) -> None:
        """Move a batch there, and bring some back for a bounded time; ``now``: the database's."""
        held = controls.held_kinds
        if held != self._held:
            self._held, self._place, self._countdown = held, _START, 0
        if held:
            self._park(database, held, actor)
        if self._countdown <= 0:
            any_back = self._bring_back(database, controls, now, actor)
            self._countdown = 0 if any_back else BACK_EVERY_TICKS
        self._countdown -= 1

    def _park(self, database: Database, held: tuple[str, ...], actor: str) -> None:
        names = ("priority", "available_at", "created_at", "id")
        place = dict(zip(names, self._place, strict=True))
        rows: Any = run(database, _NEXT_QUEUED, kinds=list(held), scan=SCAN, **place)
        if not rows or rows[0].scanned < SCAN:
            self._place = _START
        else:
            self._place = tuple(getattr(rows[0], name) for name in names)
        ids: list[int] = (rows[0].ids if rows else None) or []
        for start in range(0, len(ids), BATCH):
            transitions.hold(
                database,
                ids[start : start + BATCH],
                actor=actor,
                reason=Reason.KIND_HELD,
                held_for="kind",
            )

    def _bring_back(
        self, database: Database, controls: Controls, now: datetime, actor: str
    ) -> bool:
        """Unhold the jobs of kinds that are not on hold any more; whether there were any."""
        held, until = controls.held_kinds, time.monotonic() + TURN_S
        lifted = [row.kind for row in run(database, HELD_KINDS) if row.kind not in held]
        left = dict.fromkeys(lifted, 0)
        while left:
            for kind, after in tuple(left.items()):
                ids = [
                    row.id for row in run(database, _HELD_OF, kind=kind, after=after, limit=BATCH)
                ]
                # Each batch over what is left of the time: those moved last come in between.
                spread_s = controls.spread_left_s(kind, now)
                _unhold(database, ids, spread_s, actor)
                if len(ids) < BATCH:
                    del left[kind]
                else:
                    left[kind] = ids[-1]
                if time.monotonic() >= until:
                    return True
        return bool(lifted)


def _unhold(database: Database, ids: list[int], spread_s: float, actor: str) -> None:
    if ids:
        transitions.unhold(
            database,
            ids,
            actor=actor,
            reason=Reason.KIND_UNHELD,
            held_for="kind",
            spread_s=spread_s,
        )
