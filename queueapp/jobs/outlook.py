"""What a worker sees when it looks up: what is due next, overdue, to be cancelled; the controls.

One statement, asked every poll interval by every worker, so it is cheap whatever the tables hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.control import LATEST, SWITCH_EVENTS, Controls, read_switches
from queueapp.jobs.database import Database, run

# The first due time of each priority: one probe each, however many jobs wait.
_LOOK = f"""
WITH RECURSIVE {PRIORITIES},
running AS MATERIALIZED (
  SELECT claimed_at, lease_expires_at, lease_token, locked_by, cancel_requested_at FROM jobs
  WHERE status = 'running' AND claimed_at >= coalesce(%(low)s::timestamptz, '-infinity')
  ORDER BY claimed_at, id LIMIT 10000
)
SELECT
  (SELECT extract(epoch FROM min(n.available_at) - clock_timestamp())
   FROM (SELECT priority FROM priorities WHERE priority IS NOT NULL) p
   CROSS JOIN LATERAL (
     SELECT j.available_at FROM jobs j WHERE j.status = 'queued' AND j.priority = p.priority
     ORDER BY j.available_at LIMIT 1) n)::float8 AS due_in_s,
  (SELECT count(*) FROM running WHERE lease_expires_at < clock_timestamp()) AS overdue,
  (SELECT min(claimed_at) FROM running WHERE lease_expires_at >= clock_timestamp()) AS oldest_alive,
  (SELECT array_agg(lease_token) FROM running
   WHERE locked_by = %(me)s AND cancel_requested_at IS NOT NULL) AS cancels,
  (SELECT jsonb_agg(s) FROM ({LATEST}) s) AS switches,
  clock_timestamp() AS at
"""


@dataclass(frozen=True)
class Outlook:
    """The answer. ``due_in_s``: until the next job is due (0 or less: one is), None without any.

    ``oldest_alive``: when the oldest lease that is still alive was claimed.
    """

    due_in_s: float | None
    overdue: int
    oldest_alive: datetime | None
    cancels: Sequence[UUID]
    controls: Controls
    at: datetime


def look(
    database: Database,
    *,
    me: str,
    low: datetime | None = None,
    controls_since: datetime | None = None,
) -> Outlook:
    """Look up. ``low`` bounds the leases looked at, ``controls_since`` the control events."""
    row: Any = run(
        database,
        _LOOK,
        me=me,
        low=low,
        since=controls_since,
        switches=SWITCH_EVENTS,
    )[0]
    controls = read_switches(row.switches or [])
    return Outlook(row.due_in_s, row.overdue, row.oldest_alive, row.cancels or (), controls, row.at)
