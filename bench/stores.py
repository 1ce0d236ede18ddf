"""How each queue's own tables are asked what became of the jobs, and how they are filled."""

from __future__ import annotations

from bench.peer import Store

_PAYLOAD = "jsonb_build_object('n', g, 'pad', repeat('x', 80))"
# Of ours, as the product writes it.
_ENQUEUED = """
        INSERT INTO job_events (job_id, kind, event, to_status, attempt, actor, data)
        SELECT id, 'bench.noop', 'enqueued', 'queued', 0, 'app', jsonb_build_object(
            'priority', priority, 'available_at', available_at, 'via', 'python')
"""

OURS = Store(
    finished="SELECT count(*) FROM jobs WHERE status = 'succeeded'",
    unsettled="SELECT count(*) FROM jobs WHERE status = 'running'",
    waiting="""
        WITH j AS (
            INSERT INTO jobs (kind, payload, status, producer)
            SELECT 'bench.noop', {payload}, 'queued', 'app' FROM generate_series(0, {n} - 1) g
            RETURNING id, priority, available_at
        )
        {enqueued} FROM j
    """,
    history="""
        WITH j AS (
            INSERT INTO jobs (kind, payload, status, producer, attempts, started_at, finished_at)
            SELECT 'bench.noop', {payload}, 'succeeded', 'app', 1, now(), now()
            FROM generate_series(1, {n}) g
            RETURNING id
        )
        INSERT INTO job_events (job_id, kind, event, from_status, to_status, attempt, actor)
        SELECT id, 'bench.noop', e.event, e.was, e.became, e.attempt, 'app'
        FROM j, (VALUES ('enqueued', NULL, 'queued', NULL), ('claimed', 'queued', 'running', 1),
            ('succeeded', 'running', 'succeeded', 1)) e (event, was, became, attempt)
    """,
)

PROCRASTINATE = Store(
    finished="SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
    unsettled="SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing'",
    waiting="""
        INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args)
        SELECT 'q', 'noop', 0, {payload} FROM generate_series(0, {n} - 1) g
    """,
    history="""
        SET session_replication_role = replica;
        INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args, status, attempts)
        SELECT 'q', 'noop', 0, {payload}, 'succeeded', 1 FROM generate_series(1, {n}) g;
        INSERT INTO procrastinate_events (job_id, type)
        SELECT id, t::procrastinate_job_event_type
        FROM procrastinate_jobs, unnest(ARRAY['deferred', 'started', 'succeeded']) t
    """,
)

PGQUEUER = Store(
    finished="SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'",
    unsettled="SELECT count(*) FROM pgqueuer WHERE status = 'picked'",
    waiting="""
        INSERT INTO pgqueuer (priority, status, entrypoint, payload)
        SELECT 0, 'queued', 'noop', convert_to({payload}::text, 'UTF8')
        FROM generate_series(0, {n} - 1) g
    """,
    history="""
        INSERT INTO pgqueuer_log (job_id, status, entrypoint, priority)
        SELECT g, s::pgqueuer_status, 'noop', 0
        FROM generate_series(1, {n}) g, unnest(ARRAY['queued', 'picked', 'successful']) s
    """,
)

CHANCY = Store(
    finished="SELECT count(*) FROM chancy_jobs WHERE state = 'succeeded'",
    unsettled="SELECT count(*) FROM chancy_jobs WHERE state = 'running'",
    seed=True,
    waiting="""
        INSERT INTO chancy_jobs (id, queue, func, kwargs, limits, meta, state, priority,
            max_attempts, attempts, created_at, scheduled_at)
        SELECT gen_random_uuid(), queue, func, {payload}, limits, meta, state, priority,
            max_attempts, attempts, now(), now()
        FROM chancy_jobs, generate_series(1, {n} - 1) g
    """,
    history="""
        INSERT INTO chancy_jobs (id, queue, func, kwargs, limits, meta, state, priority,
            max_attempts, attempts, created_at, scheduled_at, started_at, completed_at)
        SELECT gen_random_uuid(), queue, func, {payload}, limits, meta, 'succeeded', priority,
            max_attempts, 1, now(), now(), now(), now()
        FROM chancy_jobs, generate_series(1, {n}) g;
        DELETE FROM chancy_jobs WHERE state <> 'succeeded'
    """,
)

PGBOSS = Store(
    finished="SELECT count(*) FROM pgboss.job WHERE name = 'q' AND state = 'completed'",
    unsettled="SELECT count(*) FROM pgboss.job WHERE name = 'q' AND state = 'active'",
    waiting="""
        INSERT INTO pgboss.job_common (name, data)
        SELECT 'q', {payload} FROM generate_series(0, {n} - 1) g
    """,
    history="""
        INSERT INTO pgboss.job_common (name, data, state, started_on, completed_on)
        SELECT 'q', {payload}, 'completed', now(), now() FROM generate_series(1, {n}) g
    """,
)

GRAPHILE = Store(
    left="SELECT count(*) FROM graphile_worker._private_jobs",
    unsettled="SELECT count(*) FROM graphile_worker._private_jobs WHERE locked_at IS NOT NULL",
    no_history="keeps no finished jobs",
)

BULLMQ = Store(
    redis=True,
    finished="ZCARD bull:q:completed",
    unsettled="LLEN bull:q:active",
    no_history="not filled: it keeps finished jobs in memory, a million of them would not be fair",
)

# Ours only: jobs that are not due for a year, all of them before the due ones in the claim's order.
SCHEDULED_AHEAD = """
    WITH j AS (
        INSERT INTO jobs (kind, payload, status, priority, available_at, producer)
        SELECT 'bench.noop', {payload}, 'queued', 100, now() + interval '1 year', 'app'
        FROM generate_series(1, {n}) g
        RETURNING id, priority, available_at
    )
    {enqueued} FROM j
"""


def fill(statement: str, count: int) -> str:
    """A statement from above with the number and the payload of the jobs filled in."""
    whole = statement.replace("{enqueued}", _ENQUEUED.strip())
    return whole.replace("{payload}", _PAYLOAD).replace("{n}", str(count))
