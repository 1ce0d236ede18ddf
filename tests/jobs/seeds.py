"""Many rows at once, written past the verbs: for tests of what reads them at size."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

_JOBS = """
INSERT INTO jobs (kind, payload, status, priority, available_at, attempts, max_attempts, held_for,
  locked_by, lease_token, lease_expires_at, claimed_at, error_class, error_fingerprint, producer,
  idempotency_key, request_hash, created_at, started_at, finished_at)
SELECT 'seed.kind' || n % 7, '{}', s.status, n % 3,
  CASE WHEN n % 2 = 0 THEN now() - n * interval '1 ms' ELSE now() + interval '1 day' END,
  n % 4, 5, CASE s.status WHEN 'held' THEN CASE WHEN n % 2 = 0 THEN 'kind' ELSE 'job' END END,
  CASE s.status WHEN 'running' THEN 'seed:1:aa' END,
  CASE s.status WHEN 'running' THEN gen_random_uuid() END,
  CASE s.status WHEN 'running' THEN now() + interval '1 min' END,
  CASE s.status WHEN 'running' THEN now() - n * interval '1 ms' END,
  CASE s.status WHEN 'failed' THEN 'ValueError' END,
  CASE s.status WHEN 'failed' THEN 'f' || n % 5 END,
  'producer' || n % 3,
  CASE WHEN n % 10 = 0 THEN 'key-' || n END, CASE WHEN n % 10 = 0 THEN 'x' END,
  now() - interval '1 day', now() - interval '1 h',
  CASE WHEN s.status IN ('succeeded', 'failed', 'cancelled')
       THEN now() - (n % 3600) * interval '1 s' END
FROM generate_series(1, :count) n
CROSS JOIN LATERAL (SELECT (ARRAY['queued', 'running', 'failed', 'cancelled', 'held'])[n % 40] AS
  maybe) m
CROSS JOIN LATERAL (SELECT coalesce(m.maybe, 'succeeded') AS status) s
"""

_EVENTS = """
INSERT INTO job_events (job_id, kind, event, from_status, to_status, attempt, actor, created_at)
SELECT n, 'seed.kind' || n % 7, e, NULL, 'queued', 0, 'app', now()
FROM generate_series(1, :count) n, unnest(ARRAY['enqueued', 'claimed']) e
"""


# One that has moved the first jobs, 500 with each line.
OPERATION = "0123456789abcdef"
_PLANNED = f"""
INSERT INTO job_events (scope, event, actor, data)
VALUES ('op:{OPERATION}', 'op_planned', 'user:ana', '{{}}')
"""
_MOVES = f"""
INSERT INTO job_events (job_id, kind, event, from_status, to_status, attempt, actor, data)
SELECT n, 'seed.kind' || n % 7, 'requeued', 'failed', 'queued', 0, 'user:ana',
  '{{"operation": "{OPERATION}"}}'
FROM generate_series(1, :count) n
"""
_BATCHES = f"""
INSERT INTO job_events (scope, event, actor, data)
SELECT 'op:{OPERATION}', 'op_batch', 'user:ana',
  jsonb_build_object('moved', max(n), 'after', max(n), 'jobs', jsonb_agg(n ORDER BY n))
FROM generate_series(1, :count) n GROUP BY (n - 1) / 500 ORDER BY 1
"""


def seed_operation(session: Session, count: int) -> None:
    """Write the lines of OPERATION as if it had moved the jobs 1 to ``count``."""
    for statement in (_PLANNED, _MOVES, _BATCHES):
        session.execute(sa.text(statement), {"count": count})
    session.commit()


def seed(session: Session, count: int) -> None:
    """Write ``count`` jobs, one in forty of each status but succeeded, and two events for each."""
    session.execute(sa.text(_JOBS), {"count": count})
    session.execute(sa.text(_EVENTS), {"count": count})
    session.commit()
    analyze(session)


def analyze(session: Session) -> None:
    """Give the planner what autovacuum would."""
    engine = session.connection().engine
    session.rollback()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE jobs"))
        connection.execute(sa.text("ANALYZE job_events"))
