"""When the workers last got another release."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from queueapp.jobs import deploy
from queueapp.jobs.database import Database, run

MOST_WORKERS = 2_000

# Whole days, told as parameters, so that the partitions of all others are left out.
_SEEN = """e.job_id IS NULL AND e.event = 'worker_seen'
  AND e.created_at >= %(lately)s::timestamptz AND e.created_at < %(tomorrow)s::timestamptz"""

# A probe for each name, and one for its first line.
_RELEASES = f"""
WITH RECURSIVE names AS (
  (SELECT e.scope FROM job_events e WHERE {_SEEN} ORDER BY e.scope LIMIT 1)
  UNION ALL
  SELECT (SELECT e.scope FROM job_events e WHERE {_SEEN} AND e.scope > n.scope
          ORDER BY e.scope LIMIT 1)
  FROM names n WHERE n.scope IS NOT NULL
)
SELECT first.release, min(first.created_at) AS first_at
FROM (SELECT scope FROM names WHERE scope IS NOT NULL LIMIT %(most)s) n
CROSS JOIN LATERAL (
  SELECT e.created_at, e.data->>'release' AS release FROM job_events e
  WHERE {_SEEN} AND e.scope = n.scope ORDER BY e.id LIMIT 1
) first
WHERE btrim(first.release) <> ''
GROUP BY 1 ORDER BY 2 DESC LIMIT 2
"""


def last_deploy(database: Database, now: datetime) -> deploy.Deploy | None:
    """The newest release of today and yesterday; None unless another one was there before it."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    rows = run(database, _RELEASES, lately=today - day, tomorrow=today + day, most=MOST_WORKERS)
    return deploy.latest((row.release, row.first_at) for row in rows)
