"""The claim: its value, and the statement that chooses which jobs are next. Touches no session.

The order is ``priority DESC, available_at, created_at, id``. A plain ordered scan would walk
through every future-dated row of a higher priority; so the distinct priorities are found by a loose
through every future-dated row of a higher priority; so the distinct priorities are found by a
loose scan (one index probe each), and the due rows of each are read from where they begin. The
outer LIMIT stops the locking exactly at ``n``: nothing more is locked than is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
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


def claiming(kinds_filter: str) -> str:
    """Render the CTEs ``priorities``, ``due``, ``ranked`` and ``claimed``.

    Parameters: ``n`` rows at most, of which the first ``slots`` start at once (the rest are
    prefetched: no start time yet), ``me``, ``lease`` and ``job_timeout`` in seconds (0: none).

    The UPDATE names its rows by ``= ANY(ARRAY[id])``, which only the primary key can serve (see
    ``settle``), and not by their status: that would invite a walk through the claim index.
    """
    return f"""{PRIORITIES},
due AS MATERIALIZED (
  SELECT c.id, c.priority, c.available_at, c.created_at
  FROM (SELECT priority FROM priorities WHERE priority IS NOT NULL ORDER BY priority DESC) p
  CROSS JOIN LATERAL (
    SELECT j.id, j.priority, j.available_at, j.created_at FROM jobs j
    WHERE j.status = 'queued' AND j.priority = p.priority
      AND j.available_at <= now(){kinds_filter}
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
  RETURNING j.id, j.kind, j.payload, j.priority, j.available_at, j.created_at, j.claimed_at,
    j.attempts, j.max_attempts, j.handbacks, j.timeout_s, j.lease_token,
    j.started_at IS NOT NULL AS started
)"""


CLAIM_COLUMNS = (
    "id, kind, payload, priority, available_at, created_at, claimed_at, attempts, max_attempts,"
    " handbacks, timeout_s, lease_token, started"
)
CLAIM_ORDER = "priority DESC, available_at, created_at, id"


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt of one job, as it crosses from the pump to a handler thread.

    ``token`` is the attempt's identity: whoever holds it may settle it, nobody else. ``started`` is
    False for a prefetched claim, whose handler has not begun.
    """

    id: int
    kind: str
    payload: Any
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


def as_claim(values: Sequence[Any]) -> Claim:
    """Read a claim from the values of ``CLAIM_COLUMNS``."""
    return Claim(*values)


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
