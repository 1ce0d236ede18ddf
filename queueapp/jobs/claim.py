"""The claim: its value, and the statement that chooses which jobs are next. Touches no session.

The order is ``priority DESC, available_at, created_at, id``. A plain ordered scan would walk
through every future-dated row of a higher priority; so the distinct priorities are found by a
loose scan (one index probe each), and the due rows of each are read from where they begin: the
first one that is due, or the place where the last claim ended (see ``cursor``). The outer LIMIT
stops the locking exactly at ``n``: nothing more is locked than is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

# Statuses stand as literals: with a parameter, a generic plan could not use the partial index.
PRIORITIES = """
priorities AS (
  (SELECT j.priority FROM jobs j WHERE j.status = 'queued' ORDER BY j.priority DESC LIMIT 1)
  UNION ALL
  SELECT (SELECT j.priority FROM jobs j
          WHERE j.status = 'queued' AND j.priority < p.priority ORDER BY j.priority DESC LIMIT 1)
  FROM priorities p WHERE p.priority IS NOT NULL
)"""

# The same with places known: from priority to priority, and only the gaps between the known ones
# are searched for others. What has been claimed leaves dead entries in the index, which no search
# may walk again while an old snapshot keeps them. Beyond smallint on both sides: no priority.
#
# The places lie in arrays, the highest priority first, so that a step costs the same however many
# there are. ``nth``: the next of them; ``at``: the one of this priority, if it has one. OFFSET 0
# keeps the probe from being made once for each mention of its answer.
FROM_PLACES = """
known AS MATERIALIZED (
  SELECT array_agg(priority ORDER BY priority DESC) AS priorities,
    array_agg(available_at ORDER BY priority DESC) AS dues,
    array_agg(created_at ORDER BY priority DESC) AS creations,
    array_agg(id ORDER BY priority DESC) AS ids
  FROM jsonb_to_recordset(%(places)s::jsonb) AS p(
    priority smallint, available_at timestamptz, created_at timestamptz, id bigint)
),
priorities AS (
  SELECT 32768 AS priority, 1 AS nth, NULL::int AS at
  UNION ALL
  SELECT next.priority,
    p.nth + CASE WHEN next.priority = known.priorities[p.nth] THEN 1 ELSE 0 END,
    CASE WHEN next.priority = known.priorities[p.nth] THEN p.nth END
  FROM priorities p CROSS JOIN known CROSS JOIN LATERAL (
    SELECT greatest(known.priorities[p.nth]::int, (
      SELECT j.priority FROM jobs j
      WHERE j.status = 'queued' AND j.priority < p.priority
        AND j.priority > coalesce(known.priorities[p.nth]::int, -32769)
      ORDER BY j.priority DESC LIMIT 1)) AS priority
    OFFSET 0
  ) next
  WHERE p.priority IS NOT NULL
)"""

# Each priority that may have rows, the highest first, and where to begin in it; named ``p``. They
# come in the order in which they are found. A sort would find them all before the first is read.
STARTS = """(
    SELECT p.priority, coalesce(known.dues[p.at], '-infinity') AS available_at,
      coalesce(known.creations[p.at], '-infinity') AS created_at,
      coalesce(known.ids[p.at], 0) AS id
    FROM priorities p CROSS JOIN known
    WHERE p.priority BETWEEN -32768 AND 32767
  ) p"""


def claiming(kinds_filter: str) -> str:
    """Render the CTEs ``known``, ``priorities``, ``due``, ``ranked`` and ``claimed``.

    Parameters: ``n`` rows at most, of which the first ``slots`` start at once (the rest are
    prefetched: no start time yet), ``me``, ``lease`` and ``job_timeout`` in seconds (0: none), and
    ``places``, the document of a ``Cursor``.

    The UPDATE names its rows by ``= ANY(ARRAY[id])``, which only the primary key can serve (see
    ``settle``), and not by their status: that would invite a walk through the claim index.
    """
    return f"""{FROM_PLACES},
due AS MATERIALIZED (
  SELECT c.id, c.priority, c.available_at, c.created_at
  FROM {STARTS}
  CROSS JOIN LATERAL (
    SELECT j.id, j.priority, j.available_at, j.created_at FROM jobs j
    WHERE j.status = 'queued' AND j.priority = p.priority
      AND j.available_at <= now(){kinds_filter}
      AND (j.available_at, j.created_at, j.id) > (p.available_at, p.created_at, p.id)
    ORDER BY j.available_at, j.created_at, j.id
    LIMIT %(n)s FOR NO KEY UPDATE SKIP LOCKED
  ) c
  LIMIT %(n)s
),
ranked AS (
  SELECT id, row_number() OVER (ORDER BY priority DESC, available_at, created_at, id) AS nth
  FROM due
),
claimed AS (
  UPDATE jobs j SET
    status = 'running', attempts = j.attempts + 1, locked_by = %(me)s,
    lease_token = gen_random_uuid(), claimed_at = clock_timestamp(),
    lease_expires_at = clock_timestamp() + make_interval(secs => least(%(lease)s::float8,
      CASE WHEN r.nth <= %(slots)s
           THEN nullif(coalesce(j.timeout_s, %(job_timeout)s::float8), 0) END)),
    started_at = CASE WHEN r.nth <= %(slots)s THEN clock_timestamp() END,
    progress = NULL, progress_note = NULL
  FROM ranked r WHERE j.id = ANY(ARRAY[r.id])
  RETURNING j.id, j.kind, j.payload::text AS payload, j.priority, j.available_at, j.created_at,
    j.claimed_at, j.attempts, j.max_attempts, j.handbacks, j.timeout_s, j.lease_token,
    j.started_at IS NOT NULL AS started
)"""


CLAIM_COLUMNS = (
    "id, kind, payload, priority, available_at, created_at, claimed_at, attempts, max_attempts,"
    " handbacks, timeout_s, lease_token, started"
)
CLAIM_ORDER = "priority DESC, available_at, created_at, id"


class Claim(NamedTuple):
    """One attempt of one job, as it crosses from the pump to a handler thread.

    ``token`` is the attempt's identity: whoever holds it may settle it, nobody else. ``payload`` is
    the JSON text, for only its handler reads it. ``started`` is False for a prefetched claim, whose
    handler has not begun. The fields are ``CLAIM_COLUMNS``, in that order.
    """

    id: int
    kind: str
    payload: str
    priority: int
    available_at: datetime
    created_at: datetime
    claimed_at: datetime
    attempt: int
    max_attempts: int
    handbacks: int
    timeout_s: int | None
    token: UUID
    started: bool


@dataclass(frozen=True, slots=True)
class Holder:
    """Who claims, and on what terms. ``lease_s`` and ``job_timeout_s`` (0: none) in seconds.

    ``only`` names the kinds to take (None: all), ``skip`` kinds to leave.
    """

    name: str
    lease_s: float
    job_timeout_s: float = 0
    only: tuple[str, ...] | None = None
    skip: tuple[str, ...] = ()
