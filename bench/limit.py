"""The limit of the same run: claim and complete with events in plain SQL, driven by pgbench.

The barest queue with a history: a job table with the two partial indexes that it needs, and a log.
``one``: a job at a time, claim and end in a transaction each. ``batch``: a hundred at a time, in
one statement each. No queue with a history can be much faster than ``batch`` on this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import pgbench, processes
from bench.errors import Failed
from bench.services import Postgres

DATABASE = "bench_limit"
CLIENTS = 4
BATCH = 100
# More jobs than can be done in a second: running out of them would flatter.
_ENOUGH = {"one": 8_000, "batch": 80_000}

_TABLES = (
    "DROP TABLE IF EXISTS job_events",
    "DROP TABLE IF EXISTS jobs",
    """CREATE TABLE jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        queue text NOT NULL DEFAULT 'default', task text NOT NULL DEFAULT 'noop',
        args jsonb NOT NULL, status smallint NOT NULL DEFAULT 0,
        priority smallint NOT NULL DEFAULT 0, run_at timestamptz NOT NULL DEFAULT now(),
        attempt smallint NOT NULL DEFAULT 0, worker_id int,
        created_at timestamptz NOT NULL DEFAULT now(),
        started_at timestamptz, finished_at timestamptz)""",
    "CREATE INDEX jobs_ready ON jobs (queue, priority, id) WHERE status = 0",
    "CREATE INDEX jobs_running ON jobs (worker_id) WHERE status = 1",
    """CREATE TABLE job_events (
        id bigint GENERATED ALWAYS AS IDENTITY, job_id bigint NOT NULL, type smallint NOT NULL,
        at timestamptz NOT NULL DEFAULT now(), data jsonb)""",
    "CREATE INDEX job_events_job ON job_events (job_id)",
)
_FILL = """
    WITH j AS (
        INSERT INTO jobs (args) SELECT jsonb_build_object('n', g, 'pad', repeat('x', 80))
        FROM generate_series(1, {n}) g RETURNING id
    )
    INSERT INTO job_events (job_id, type) SELECT id, 0 FROM j
"""
_DUE = (
    "SELECT id FROM jobs WHERE status = 0 AND queue = 'default' AND run_at <= now()"
    " ORDER BY priority, id LIMIT {limit} FOR UPDATE SKIP LOCKED"
)
_CLAIM = "SET status = 1, started_at = now(), worker_id = :client_id, attempt = attempt + 1"
_END = "SET status = 2, finished_at = now()"
_SCRIPTS = {
    "one": rf"""
BEGIN;
UPDATE jobs {_CLAIM} WHERE id = ({_DUE.format(limit=1)}) RETURNING id, attempt
\gset j_
INSERT INTO job_events (job_id, type) VALUES (:j_id, 1);
COMMIT;
BEGIN;
UPDATE jobs {_END} WHERE id = :j_id AND status = 1;
INSERT INTO job_events (job_id, type) VALUES (:j_id, 2);
COMMIT;
""",
    "batch": rf"""
WITH due AS ({_DUE.format(limit=BATCH)}), claimed AS (UPDATE jobs {_CLAIM} FROM due WHERE jobs.id = due.id RETURNING jobs.id, task, args), logged AS (INSERT INTO job_events (job_id, type) SELECT id, 1 FROM claimed) SELECT array_agg(id) AS ids, count(task || args::text) AS n FROM claimed
\gset j_
WITH done AS (UPDATE jobs {_END} WHERE id = any(:j_ids::bigint[]) AND status = 1 RETURNING id) INSERT INTO job_events (job_id, type) SELECT id, 2 FROM done;
""",  # noqa: E501 - pgbench takes a statement whole before \gset
}


def measure(postgres: Postgres, which: str, *, seconds: int, scratch: Path) -> dict[str, Any]:
    """Run ``which`` for ``seconds``. Raises Missing without a pgbench, Failed when it fails."""
    pgbench.find(postgres.binaries)
    if not postgres.exists(DATABASE):
        postgres.make(DATABASE)
    count = _ENOUGH[which] * seconds
    with postgres.connect(DATABASE) as connection:
        for statement in (*_TABLES, _FILL.replace("{n}", str(count)), "ANALYZE", "CHECKPOINT"):
            connection.execute(statement.encode())
    used = processes.cpu_seconds(postgres.pid)
    script = pgbench.Script(text=_SCRIPTS[which], clients=CLIENTS)
    url = postgres.url(DATABASE)
    driven = pgbench.drive(postgres.binaries, url, script, seconds=seconds, scratch=scratch)
    used = processes.cpu_seconds(postgres.pid) - used
    done = int(postgres.ask("SELECT count(*) FROM jobs WHERE status = 2", DATABASE))
    if done >= count:
        raise Failed(f"limit {which}: {count} jobs were too few for {seconds} s")
    return {"rate": done / driven.seconds, "jobs": done, "cpu_server": used / done * 1000}
