"""What is read of workers beside their signs: leases."""

from __future__ import annotations

# Who holds running jobs, of those that were claimed first, with what each has been at for longest.
HOLDERS = """
SELECT r.locked_by AS name, count(*) AS held, count(r.started_at) AS started,
  count(*) FILTER (WHERE r.lease_expires_at <= statement_timestamp()) AS overdue,
  min(r.lease_expires_at) AS lease_ends_at,
  (array_agg(r.id ORDER BY r.started_at, r.id))[1] AS longest_id,
  (array_agg(r.kind ORDER BY r.started_at, r.id))[1] AS longest_kind,
  min(r.started_at) AS longest_at
FROM (
  SELECT id, kind, locked_by, started_at, lease_expires_at FROM jobs
  WHERE status = 'running' ORDER BY claimed_at, id LIMIT %(most_running)s
) r GROUP BY r.locked_by"""

# What one of them holds, in the order in which it was claimed.
HELD = """
SELECT r.id, r.kind, r.attempts, r.max_attempts, r.claimed_at, r.started_at, r.lease_expires_at,
  r.progress, r.cancel_requested_at
FROM (
  SELECT id, kind, locked_by, attempts, max_attempts, claimed_at, started_at, lease_expires_at,
    progress, cancel_requested_at FROM jobs
  WHERE status = 'running' ORDER BY claimed_at, id LIMIT %(most_running)s
) r WHERE r.locked_by = %(name)s ORDER BY r.claimed_at, r.id LIMIT %(limit)s"""
