"""The two tables: jobs, and job_events partitioned by UTC day."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Every move rewrites the row, none of them in place (status is in the claim index), but renewals
# are: a third of each page stays free for them. Autovacuum starts early and does not pause.
JOBS = """
CREATE TABLE jobs (
  id bigint GENERATED ALWAYS AS IDENTITY,
  kind text NOT NULL,
  payload jsonb NOT NULL,
  status text NOT NULL,
  priority smallint NOT NULL DEFAULT 0,
  available_at timestamptz NOT NULL DEFAULT now(),
  attempts integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL DEFAULT 5,
  handbacks integer NOT NULL DEFAULT 0,
  held_for text,
  locked_by text,
  lease_token uuid,
  lease_expires_at timestamptz,
  claimed_at timestamptz,
  cancel_requested_at timestamptz,
  progress smallint,
  progress_note text,
  result jsonb,
  error_class text,
  error_message text,
  error_fingerprint text,
  producer text NOT NULL,
  idempotency_key text,
  request_hash text,
  timeout_s integer,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  finished_at timestamptz,
  CONSTRAINT pk_jobs PRIMARY KEY (id),
  CONSTRAINT ck_jobs_kind
    CHECK (status NOT IN ('queued','held') OR attempts > 0
      OR kind ~ '^[a-z][a-z0-9_.-]{0,99}$'),
  CONSTRAINT ck_jobs_state CHECK (CASE status
    WHEN 'queued' THEN attempts < max_attempts
      AND num_nonnulls(locked_by, lease_token, lease_expires_at, claimed_at,
        finished_at, held_for, cancel_requested_at) = 0
    WHEN 'running' THEN num_nonnulls(locked_by, lease_token, lease_expires_at, claimed_at) = 4
      AND num_nonnulls(finished_at, held_for) = 0
    WHEN 'succeeded' THEN finished_at IS NOT NULL
      AND num_nonnulls(locked_by, lease_token, lease_expires_at, claimed_at,
        held_for) = 0
    WHEN 'failed' THEN finished_at IS NOT NULL
      AND num_nonnulls(locked_by, lease_token, lease_expires_at, claimed_at,
        held_for) = 0
    WHEN 'cancelled' THEN finished_at IS NOT NULL
      AND num_nonnulls(locked_by, lease_token, lease_expires_at, claimed_at,
        held_for) = 0
    WHEN 'held' THEN attempts < max_attempts AND coalesce(held_for IN ('kind','job'), false)
      AND num_nonnulls(locked_by, lease_token, lease_expires_at, claimed_at,
        finished_at, cancel_requested_at) = 0
    ELSE false END),
  CONSTRAINT ck_jobs_bounds CHECK (attempts BETWEEN 0 AND max_attempts AND handbacks >= 0
    AND coalesce(progress BETWEEN 0 AND 100, true) AND coalesce(timeout_s >= 0, true)
    AND (idempotency_key IS NULL) = (request_hash IS NULL)
    AND coalesce(length(idempotency_key) BETWEEN 1 AND 200, true))
) WITH (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
)
"""

JOBS_INDEXES = (
    "CREATE INDEX ix_jobs_claim ON jobs (priority DESC, available_at, created_at, id)"
    " WHERE status = 'queued'",
    "CREATE INDEX ix_jobs_running ON jobs (claimed_at, id) WHERE status = 'running'",
    "CREATE INDEX ix_jobs_finished ON jobs (status, finished_at, id) WHERE finished_at IS NOT NULL",
    "CREATE INDEX ix_jobs_failed_fingerprint ON jobs (error_fingerprint, finished_at, id)"
    " WHERE status = 'failed'",
    "CREATE INDEX ix_jobs_held_kind ON jobs (kind, id) WHERE status = 'held' AND held_for = 'kind'",
    "CREATE UNIQUE INDEX uq_jobs_idempotency ON jobs (producer, idempotency_key)"
    " WHERE idempotency_key IS NOT NULL",
)

EVENTS = """
CREATE TABLE job_events (
  id bigint GENERATED ALWAYS AS IDENTITY,
  job_id bigint,
  kind text,
  scope text,
  event text NOT NULL,
  from_status text,
  to_status text,
  attempt integer,
  lease_token uuid,
  actor text NOT NULL,
  reason text,
  data jsonb,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT ck_job_events_job_or_scope CHECK ((job_id IS NULL) = (scope IS NOT NULL)),
  CONSTRAINT ck_job_events_kind_of_job CHECK ((job_id IS NULL) = (kind IS NULL))
) PARTITION BY RANGE (created_at)
"""

EVENTS_INDEXES = (
    "CREATE INDEX ix_job_events_job ON job_events (job_id, id)",
    "CREATE INDEX ix_job_events_feed ON job_events (xid, id)",
    "CREATE INDEX ix_job_events_control ON job_events (event, scope, id) WHERE job_id IS NULL",
)

# The net under the days: housekeeping keeps 14 days ready, so it should stay empty.
DEFAULT_PARTITION = "CREATE TABLE job_events_default PARTITION OF job_events DEFAULT"

# Bounds carry their offset: a bare date would be read in the session's time zone.
FIRST_DAYS = """
DO $$
DECLARE
  day date;
BEGIN
  FOR ahead IN 0..14 LOOP
    day := (now() AT TIME ZONE 'UTC')::date + ahead;
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF job_events FOR VALUES FROM (%L) TO (%L)',
      'job_events_' || to_char(day, 'YYYYMMDD'),
      to_char(day, 'YYYY-MM-DD') || ' 00:00+00',
      to_char(day + 1, 'YYYY-MM-DD') || ' 00:00+00');
  END LOOP;
END $$
"""


# The same on SQLite, where the names of types are for our driver: they say what a text stands for.
# The default instant is one that any program can write; the product's own is more precise.
_NOW = "(strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now'))"
SQLITE_JOBS = f"""
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  payload json_text NOT NULL,
  status TEXT NOT NULL,
  priority INTEGER NOT NULL DEFAULT 0,
  available_at instant_text NOT NULL DEFAULT {_NOW},
  attempts INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL DEFAULT 5,
  handbacks INTEGER NOT NULL DEFAULT 0,
  held_for TEXT,
  locked_by TEXT,
  lease_token uuid_text,
  lease_expires_at instant_text,
  claimed_at instant_text,
  cancel_requested_at instant_text,
  progress INTEGER,
  progress_note TEXT,
  result json_text,
  error_class TEXT,
  error_message TEXT,
  error_fingerprint TEXT,
  producer TEXT NOT NULL,
  idempotency_key TEXT,
  request_hash TEXT,
  timeout_s INTEGER,
  created_at instant_text NOT NULL DEFAULT {_NOW},
  started_at instant_text,
  finished_at instant_text,
  CONSTRAINT ck_jobs_kind
    CHECK (status NOT IN ('queued','held') OR attempts > 0 OR (kind GLOB '[a-z]*'
      AND kind NOT GLOB '*[^a-z0-9_.-]*' AND length(kind) <= 100)),
  CONSTRAINT ck_jobs_state CHECK (CASE status
    WHEN 'queued' THEN attempts < max_attempts
      AND coalesce(locked_by, lease_token, lease_expires_at, claimed_at,
        finished_at, held_for, cancel_requested_at) IS NULL
    WHEN 'running' THEN locked_by IS NOT NULL AND lease_token IS NOT NULL
      AND lease_expires_at IS NOT NULL AND claimed_at IS NOT NULL
      AND coalesce(finished_at, held_for) IS NULL
    WHEN 'succeeded' THEN finished_at IS NOT NULL
      AND coalesce(locked_by, lease_token, lease_expires_at, claimed_at,
        held_for) IS NULL
    WHEN 'failed' THEN finished_at IS NOT NULL
      AND coalesce(locked_by, lease_token, lease_expires_at, claimed_at,
        held_for) IS NULL
    WHEN 'cancelled' THEN finished_at IS NOT NULL
      AND coalesce(locked_by, lease_token, lease_expires_at, claimed_at,
        held_for) IS NULL
    WHEN 'held' THEN attempts < max_attempts AND coalesce(held_for IN ('kind','job'), false)
      AND coalesce(locked_by, lease_token, lease_expires_at, claimed_at,
        finished_at, cancel_requested_at) IS NULL
    ELSE false END),
  CONSTRAINT ck_jobs_bounds CHECK (attempts BETWEEN 0 AND max_attempts AND handbacks >= 0
    AND coalesce(progress BETWEEN 0 AND 100, true) AND coalesce(timeout_s >= 0, true)
    AND (idempotency_key IS NULL) = (request_hash IS NULL)
    AND coalesce(length(idempotency_key) BETWEEN 1 AND 200, true))
)
"""

SQLITE_EVENTS = f"""
CREATE TABLE job_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER,
  kind TEXT,
  scope TEXT,
  event TEXT NOT NULL,
  from_status TEXT,
  to_status TEXT,
  attempt INTEGER,
  lease_token uuid_text,
  actor TEXT NOT NULL,
  reason TEXT,
  data json_text,
  created_at instant_text NOT NULL DEFAULT {_NOW},
  xid INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT ck_job_events_job_or_scope CHECK ((job_id IS NULL) = (scope IS NOT NULL)),
  CONSTRAINT ck_job_events_kind_of_job CHECK ((job_id IS NULL) = (kind IS NULL))
)
"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        tables: tuple[str, ...] = (SQLITE_JOBS, *JOBS_INDEXES, SQLITE_EVENTS, *EVENTS_INDEXES)
    else:
        days = (DEFAULT_PARTITION, FIRST_DAYS)
        tables = (JOBS, *JOBS_INDEXES, EVENTS, *EVENTS_INDEXES, *days)
    for statement in tables:
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE job_events")
    op.execute("DROP TABLE jobs")
