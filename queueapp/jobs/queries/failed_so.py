"""When jobs that wait to be tried again have failed: their rows do not say, the ledger does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from queueapp.jobs.database import Database, run

# Whole days, told as parameters, so that the partitions of all others are left out.
_FAILED_SO = """
SELECT w.fingerprint, count(f.at) AS jobs, min(f.at) AS first_at, max(f.at) AS last_at
FROM unnest(%(ids)s::bigint[], %(fingerprints)s::text[]) AS w(id, fingerprint)
CROSS JOIN LATERAL (
  SELECT e.created_at AS at FROM job_events e
  WHERE e.job_id = w.id AND e.event = 'retry_scheduled'
    AND e.data->>'error_fingerprint' = w.fingerprint
    AND e.created_at >= %(lately)s::timestamptz AND e.created_at < %(tomorrow)s::timestamptz
  ORDER BY e.id DESC LIMIT 1) f
GROUP BY 1"""


@dataclass(frozen=True)
class FailedSo:
    """When the first and the last of ``jobs`` jobs failed; None: none of them since yesterday."""

    jobs: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


def failed_so(
    database: Database, waiting: Mapping[str, Sequence[int]], now: datetime
) -> dict[str, FailedSo]:
    """The last failures of jobs that wait, of today and yesterday, by their cause.

    ``waiting``: by fingerprint the ids of its jobs. One whose jobs have no such failure is not in
    the answer.
    """
    pairs = [(i, fingerprint) for fingerprint, ids in waiting.items() for i in ids]
    if not pairs:
        return {}
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    given: dict[str, Any] = {"lately": today - day, "tomorrow": today + day}
    given |= {"ids": [i for i, _ in pairs], "fingerprints": [one for _, one in pairs]}
    rows = run(database, _FAILED_SO, **given)
    return {row.fingerprint: FailedSo(row.jobs, row.first_at, row.last_at) for row in rows}
