"""When jobs that wait to be tried again have failed: their rows do not say, the ledger does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from queueapp.jobs.database import Database, run

# Whole days, told as parameters, so that the partitions of all others are left out.
_FAILED_SO = """
SELECT count(f.at) AS jobs, min(f.at) AS first_at, max(f.at) AS last_at
FROM unnest(%(ids)s::bigint[]) AS w(id)
CROSS JOIN LATERAL (
  SELECT e.created_at AS at FROM job_events e
  WHERE e.job_id = w.id AND e.event = 'retry_scheduled'
    AND e.data->>'error_fingerprint' = %(fingerprint)s
    AND e.created_at >= %(lately)s::timestamptz AND e.created_at < %(tomorrow)s::timestamptz
  ORDER BY e.id DESC LIMIT 1) f"""


@dataclass(frozen=True)
class FailedSo:
    """When the first and the last of ``jobs`` jobs failed; None: none of them since yesterday."""

    jobs: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


def failed_so(database: Database, fingerprint: str, ids: Sequence[int], now: datetime) -> FailedSo:
    """The last failures of the jobs ``ids`` with this cause, of today and yesterday."""
    if not ids:
        return FailedSo()
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    given = {"lately": today - day, "tomorrow": today + day}
    [row] = run(database, _FAILED_SO, ids=list(ids), fingerprint=fingerprint, **given)
    return FailedSo(row.jobs, row.first_at, row.last_at)
