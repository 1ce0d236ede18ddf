"""What a lease that somebody shows is worth: whether it is held still, and how its attempt stands.

Nothing is locked. While a row has a token, its attempt, limits and start do not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from queueapp.jobs.database import Database, run

COLUMNS = (
    "id", "token", "is_held", "attempt", "max_attempts", "handbacks", "claimed_at", "ran_s",
)  # fmt: skip

# OFFSET 0: one probe of the primary key each, whatever the statistics say.
#
# A lease that is over has no claim to be found any more; its end is looked for in the last day.
_STANDINGS = """
SELECT a.id, a.token, j.id IS NOT NULL AS is_held, coalesce(j.attempts, 0) AS attempt,
  coalesce(j.max_attempts, 0) AS max_attempts, coalesce(j.handbacks, 0) AS handbacks,
  coalesce(j.claimed_at, statement_timestamp() - interval '1 day') AS claimed_at,
  extract(epoch FROM clock_timestamp() - j.started_at)::float8 AS ran_s
FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) AS a(id, token)
LEFT JOIN LATERAL (
  SELECT j.id, j.attempts, j.max_attempts, j.handbacks, j.claimed_at, j.started_at FROM jobs j
  WHERE j.id = a.id AND j.lease_token = a.token OFFSET 0
) j ON true
"""


class Standing(NamedTuple):
    """One lease. ``claimed_at``: where to begin in the ledger. ``ran_s``: None without a start."""

    id: int
    token: UUID
    is_held: bool
    attempt: int
    max_attempts: int
    handbacks: int
    claimed_at: datetime
    ran_s: float | None


def standings_of(database: Database, leases: Iterable[tuple[int, UUID]]) -> dict[UUID, Standing]:
    """How each lease stands, by its token."""
    ids, tokens = zip(*leases, strict=True)
    rows = run(database, _STANDINGS, ids=list(ids), tokens=list(tokens))
    return {row.token: Standing._make(row) for row in rows}
