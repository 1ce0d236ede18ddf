"""What has been happening: the longest runners, how many jobs failed of late."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.database import Database, run
from queueapp.jobs.queries.bounds import COUNT_LIMIT

_FAILED_SINCE = """
SELECT count(*) AS failed FROM (
  SELECT 1 FROM jobs
  WHERE status = 'failed' AND finished_at > statement_timestamp() - %(span)s::interval
  ORDER BY finished_at DESC LIMIT %(bound)s
) bounded"""

_LONGEST_RUNNING = """
SELECT id, kind, priority, attempts, max_attempts, locked_by, claimed_at, started_at,
  lease_expires_at, cancel_requested_at, progress
FROM jobs WHERE status = 'running' ORDER BY claimed_at, id LIMIT %(limit)s"""


def failed_since(database: Database, span: timedelta) -> int:
    """How many jobs failed for good within ``span``, counted up to COUNT_LIMIT + 1."""
    failed: int = run(database, _FAILED_SINCE, span=span, bound=COUNT_LIMIT + 1)[0].failed
    return failed


def longest_running(database: Database, limit: int = 8) -> Sequence[Row[Any]]:
    """The running jobs that were claimed first."""
    return run(database, _LONGEST_RUNNING, limit=limit)
