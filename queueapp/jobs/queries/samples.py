"""What tells causes apart in a short list: a message as it stands on one job, and the last failure.

Jobs that wait to be tried again do not say when they have failed; the end of the ledger does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from queueapp.jobs.database import Database, run

# Lines of the ledger that are looked through, newest first.
LOOKED_AT = 2_000
_MESSAGE = 300

_SAMPLES = f"""
WITH tail AS MATERIALIZED (
  SELECT event, data, created_at FROM job_events
  WHERE created_at >= %(lately)s::timestamptz AND created_at < %(tomorrow)s::timestamptz
  ORDER BY xid DESC, id DESC LIMIT %(looked_at)s
),
again AS (
  SELECT data->>'error_fingerprint' AS fingerprint, max(created_at) AS at
  FROM tail WHERE event = 'retry_scheduled' GROUP BY 1
)
SELECT f.fingerprint, left(j.error_message, {_MESSAGE}) AS message,
  greatest(again.at, (
    SELECT e.created_at FROM job_events e
    WHERE e.job_id = f.id AND e.event = 'retry_scheduled'
      AND e.created_at >= %(lately)s::timestamptz AND e.created_at < %(tomorrow)s::timestamptz
    ORDER BY e.id DESC LIMIT 1)) AS retried_at
FROM unnest(%(fingerprints)s::text[], %(ids)s::bigint[]) AS f(fingerprint, id)
LEFT JOIN jobs j ON j.id = f.id AND j.error_fingerprint = f.fingerprint
LEFT JOIN again ON again.fingerprint = f.fingerprint
"""


@dataclass(frozen=True)
class Sample:
    """Of one cause. ``message``: its first line, names and numbers as they are on that job.

    ``retried_at``: when an attempt failed so last that is made again, of today and yesterday.
    """

    message: str
    retried_at: datetime | None


def samples_of(database: Database, ids: Mapping[str, int], now: datetime) -> dict[str, Sample]:
    """A sample for each cause; ``ids``: by fingerprint, a job that has it."""
    if not ids:
        return {}
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    rows = run(
        database,
        _SAMPLES,
        fingerprints=list(ids),
        ids=list(ids.values()),
        lately=today - day,
        tomorrow=today + day,
        looked_at=LOOKED_AT,
    )
    return {
        row.fingerprint: Sample((row.message or "").partition("\n")[0], row.retried_at)
        for row in rows
    }
