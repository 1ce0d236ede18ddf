"""What a worker sees when it looks up: what is due, overdue, to be cancelled; what it is asked.

One statement, asked every poll interval by every worker, so it is cheap whatever the tables hold:
it begins where the last one found something alive (see ``Edge``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from queueapp.jobs.claim import FROM_PLACES, STARTS
from queueapp.jobs.control import LATEST, SWITCH_EVENTS, Controls, read_switches
from queueapp.jobs.database import Database, run
from queueapp.jobs.draining import ASKED, Drain
from queueapp.jobs.draining import read as read_drain

# The first due time of each priority: one probe each, however many jobs wait.
#
# ``canary``: the newest line that began a canary retry, as far back as the controls are read.
# ``places``: those first jobs, where the next look begins; the present moment where none is due,
# for what comes in later is due later.
_LOOK = f"""
WITH RECURSIVE {FROM_PLACES},
head AS MATERIALIZED (
  SELECT p.priority, j.* FROM {STARTS}
  LEFT JOIN LATERAL (
    SELECT j.available_at, j.created_at, j.id FROM jobs j
    WHERE j.status = 'queued' AND j.priority = p.priority
      AND (j.available_at, j.created_at, j.id) >= (p.available_at, p.created_at, p.id)
    ORDER BY j.available_at, j.created_at, j.id LIMIT 1
  ) j ON true
),
running AS MATERIALIZED (
  SELECT claimed_at, lease_expires_at, lease_token, locked_by, cancel_requested_at FROM jobs
  WHERE status = 'running' AND claimed_at >= coalesce(%(low)s::timestamptz, '-infinity')
  ORDER BY claimed_at, id LIMIT 10000
)
SELECT
  (SELECT min(extract(epoch FROM available_at)) - extract(epoch FROM clock_timestamp())
   FROM head)::float8 AS due_in_s,
  (SELECT count(*) FROM running WHERE lease_expires_at < clock_timestamp()) AS overdue,
  (SELECT array_agg(lease_token) FROM running
   WHERE locked_by = %(me)s AND cancel_requested_at IS NOT NULL) AS cancels,
  (SELECT jsonb_agg(s) FROM ({LATEST}) s) AS switches,
  (SELECT to_jsonb(d) FROM ({ASKED}) d) AS drain,
  (SELECT max(id) FROM job_events WHERE job_id IS NULL AND event = 'op_canary'
   AND created_at >= coalesce(%(since)s::timestamptz, '-infinity')) AS canary,
  coalesce((SELECT min(claimed_at) FROM running), now()) AS low,
  (SELECT jsonb_agg(jsonb_build_object(
      'priority', priority, 'available_at', least(available_at, now()),
      'created_at', CASE WHEN available_at <= now() THEN created_at ELSE '-infinity' END,
      'id', CASE WHEN available_at <= now() THEN id ELSE 0 END))
   FROM (SELECT * FROM head ORDER BY id IS NULL, priority DESC LIMIT 100) h) AS places,
  clock_timestamp() AS at
"""


@dataclass(frozen=True)
class Edge:
    """Where the last look found the first thing alive: in the line, and among the leases.

    Under an old snapshot the dead entries before it stay in the indexes and are not walked again.
    A look from there misses what was committed late or came back, so now and then it is widened.
    """

    low: datetime | None = None
    places: Sequence[Mapping[str, Any]] = ()

    def widened(self) -> Edge:
        """Everything. Priorities that are known stay known: only what lies between is searched."""
        return Edge(places=[{"priority": place["priority"]} for place in self.places])


@dataclass(frozen=True)
class Outlook:
    """The answer. ``due_in_s``: until the next job is due (0 or less: one is), None without any.

    ``drain``: who has asked this worker to drain, and ``canary`` the newest line that began a
    canary retry, as far back as the controls were read.
    """

    due_in_s: float | None
    overdue: int
    cancels: Sequence[UUID]
    controls: Controls
    at: datetime
    edge: Edge = field(default_factory=Edge)
    drain: Drain | None = None
    canary: int | None = None


def look(
    database: Database,
    *,
    me: str,
    edge: Edge | None = None,
    controls_since: datetime | None = None,
) -> Outlook:
    """Look up, from ``edge`` on (None: everywhere); ``controls_since`` bounds control events."""
    edge = edge or Edge()
    row: Any = run(
        database,
        _LOOK,
        me=me,
        low=edge.low,
        places=to_json(edge.places).decode(),
        since=controls_since,
        switches=SWITCH_EVENTS,
    )[0]
    return Outlook(
        row.due_in_s,
        row.overdue,
        row.cancels or (),
        read_switches(row.switches or []),
        row.at,
        Edge(row.low, row.places or ()),
        read_drain(row.drain) if row.drain else None,
        row.canary,
    )
