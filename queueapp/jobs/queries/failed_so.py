"""When jobs have failed with an error: their rows know the last time at most, the ledger all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from queueapp.jobs.database import Database, run

# Lines of one job that are looked at, the newest.
_MOST_LINES = 200
# When the job ``w.id`` has failed with ``w.fingerprint``. Whole days, told as parameters, so that
# the partitions of all others are left out.
TIMES = f"""(
  SELECT min(e.created_at) AS first_at, max(e.created_at) AS last_at FROM (
    SELECT event, data, created_at FROM job_events
    WHERE job_id = w.id
      AND created_at >= %(lately)s::timestamptz AND created_at < %(tomorrow)s::timestamptz
    ORDER BY id DESC LIMIT {_MOST_LINES}) e
  WHERE e.event IN ('retry_scheduled', 'failed')
    AND e.data->>'error_fingerprint' = w.fingerprint)"""
_FAILED_SO = f"""
SELECT w.fingerprint, count(*) AS jobs, min(f.first_at) AS first_at, max(f.last_at) AS last_at
FROM unnest(%(ids)s::bigint[], %(fingerprints)s::text[]) AS w(id, fingerprint)
CROSS JOIN LATERAL {TIMES} f
WHERE f.last_at IS NOT NULL
GROUP BY 1"""


@dataclass(frozen=True)
class FailedSo:
    """When the first and the last of ``jobs`` jobs failed; None: none of them since yesterday."""

    jobs: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


def failed_so(
    database: Database, jobs: Mapping[str, Sequence[int]], now: datetime
) -> dict[str, FailedSo]:
    """When jobs have failed with their cause, today and yesterday, in all of their attempts.

    ``jobs``: by fingerprint the ids of its jobs. One whose jobs have no such failure is not in
    the answer.
    """
    pairs = [(i, fingerprint) for fingerprint, ids in jobs.items() for i in ids]
    if not pairs:
        return {}
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    given: dict[str, Any] = {"lately": today - day, "tomorrow": today + day}
    given |= {"ids": [i for i, _ in pairs], "fingerprints": [one for _, one in pairs]}
    rows = run(database, _FAILED_SO, **given)
    return {row.fingerprint: FailedSo(row.jobs, row.first_at, row.last_at) for row in rows}
