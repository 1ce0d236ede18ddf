"""The statements of people's verbs: one template, and what each verb puts into it."""

from __future__ import annotations

from queueapp.jobs.seen import AS_SEEN
from queueapp.jobs.status import Verb, sources
from queueapp.jobs.transitions.retention import KEPT

# A due time this near to what a delay leads to is the same one.
SAME_DELAY_S = 2

# Which surface, which operation and which request a line of the ledger tells of.
_TOLD = """jsonb_build_object('via', %(via)s::text) || CASE WHEN %(operation)s::text IS NULL
      THEN '{}'::jsonb ELSE jsonb_build_object('operation', %(operation)s::text) END
      || %(request)s::jsonb"""


def _statuses(verb: Verb) -> str:
    return ", ".join(f"'{status}'" for status in sources(verb))


def _statement(
    verb: Verb, *, sets: str, event: str, data: str, guard: str = "true", own_reason: str = "NULL"
) -> str:
    """Render a verb.

    ``target`` has the row as it is now, locked; ``jobs j`` in the UPDATE is first read as it was
    when the statement began. PostgreSQL checks the CHECKs on what it makes of that older version
    before it notices and takes the newer one, so the two may only meet while they have one status;
    a row that has moved on in between is left out.

    ``sets``, ``event``, ``data`` see the row as ``j``, as it was in ``was``.

    ``own_reason`` stands in the ledger when the person gives none.
    """
    return f"""
WITH target AS MATERIALIZED (
  SELECT j.id, j.status, j.priority, j.available_at, j.attempts, j.handbacks, j.max_attempts,
    j.cancel_requested_at, j.lease_token, j.held_for, row_number() OVER () AS nth
  FROM (
    SELECT * FROM jobs j
    WHERE j.id = ANY(%(ids)s::bigint[]) AND j.status IN ({_statuses(verb)}) AND ({guard})
      AND ({AS_SEEN})
    ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
  ) j
),
moved AS (
  UPDATE jobs j SET {sets}
  FROM target was WHERE j.id = ANY(ARRAY[was.id]) AND j.status = was.status
  RETURNING j.id, j.kind, j.status, was.status AS was_status, was.attempts AS was_attempts,
    {event} AS event, coalesce(%(reason)s::text, {own_reason}) AS reason,
    {_TOLD} || {data} AS data
),
logged AS (
  INSERT INTO job_events (job_id, kind, event, from_status, to_status, attempt, actor, reason, data)
  SELECT id, kind, event, was_status, status, was_attempts, %(actor)s, reason, data
  FROM moved ORDER BY id
  RETURNING job_id AS id, event, from_status, to_status
)
SELECT id, event, from_status, to_status FROM logged ORDER BY id
"""


CANCEL = _statement(
    Verb.CANCEL,
    guard="j.cancel_requested_at IS NULL",
    sets="""
    status = CASE was.status WHEN 'running' THEN 'running' ELSE 'cancelled' END,
    finished_at = CASE WHEN was.status <> 'running' THEN clock_timestamp() END,
    cancel_requested_at = CASE was.status WHEN 'running' THEN clock_timestamp() END,
    held_for = NULL""",
    event="CASE was.status WHEN 'running' THEN 'cancel_requested' ELSE 'cancelled' END",
    data="""CASE was.status
      WHEN 'running' THEN jsonb_build_object('cancel_requested_at', j.cancel_requested_at)
      WHEN 'held' THEN jsonb_build_object('was', jsonb_build_object('held_for', was.held_for))
      ELSE '{}'::jsonb END""",
)

# The last error stays on the row until the next end: it says why somebody pressed retry.
REQUEUE = _statement(
    Verb.REQUEUE,
    sets="""
    status = 'queued', attempts = 0, handbacks = 0, cancel_requested_at = NULL,
    available_at = clock_timestamp(), started_at = NULL, finished_at = NULL,
    progress = NULL, progress_note = NULL, result = NULL""",
    event="'requeued'",
    data="""jsonb_build_object(
      'attempts', 0, 'handbacks', 0, 'available_at', j.available_at, 'cancel_requested_at', NULL,
      'was', jsonb_build_object('attempts', was.attempts, 'handbacks', was.handbacks,
        'available_at', was.available_at, 'cancel_requested_at', was.cancel_requested_at))""",
)

HOLD = _statement(
    Verb.HOLD,
    sets="status = 'held', held_for = %(held_for)s",
    event="'held'",
    data="jsonb_build_object('held_for', j.held_for)",
)

UNHOLD = _statement(
    Verb.UNHOLD,
    guard="%(held_for)s::text IS NULL OR j.held_for = %(held_for)s",
    sets="""
    status = 'queued', held_for = NULL,
    available_at = CASE WHEN %(spread_s)s::float8 > 0
      THEN greatest(was.available_at, clock_timestamp() + make_interval(
        secs => %(spread_s)s::float8 * (was.nth - 1) / (SELECT count(*) FROM target)))
      ELSE was.available_at END""",
    event="'unheld'",
    data="""jsonb_build_object('available_at', j.available_at,
      'was', jsonb_build_object('available_at', was.available_at))""",
)

_PLACES = """jsonb_build_object('priority', j.priority, 'available_at', j.available_at,
      'was', jsonb_build_object('priority', was.priority, 'available_at', was.available_at))"""

# A delay counts from now, so the second click of two asks for a moment a little later: what is due
# within two seconds of that, as long as a click may wait for the first one, has nothing to change.
# What is due already is due now: moved, it would lose its place in the line. A time that has passed
# is now as well. Spread, each has a moment of its own; without another place, what is due after the
# last of them stays as it is.
_CHANGES = """NOT %(only_if_changed)s::boolean
    OR j.priority <> %(priority)s::smallint
    OR %(spread_s)s::float8 > 0 AND (%(available_at)s::timestamptz IS NOT NULL
      OR %(delay_s)s::float8 IS NOT NULL
      OR j.available_at < clock_timestamp() + make_interval(secs => %(spread_s)s::float8))
    OR NOT %(spread_s)s::float8 > 0 AND (
      CASE WHEN %(available_at)s::timestamptz <= clock_timestamp()
      THEN j.available_at > clock_timestamp()
      ELSE j.available_at <> %(available_at)s::timestamptz END
    OR %(available_at)s::timestamptz IS NULL AND CASE WHEN %(delay_s)s::float8 = 0
      THEN j.available_at > clock_timestamp()
      ELSE j.available_at NOT BETWEEN
        clock_timestamp() + make_interval(secs => %(delay_s)s::float8 - {slack})
        AND clock_timestamp() + make_interval(secs => %(delay_s)s::float8 + {slack}) END)"""

# Nobody is put ahead of what has been due for longer by a time that has passed.
RESCHEDULE = _statement(
    Verb.RESCHEDULE,
    guard=_CHANGES.format(slack=SAME_DELAY_S),
    sets="""
    priority = coalesce(%(priority)s::smallint, was.priority),
    available_at = CASE WHEN %(spread_s)s::float8 > 0 THEN greatest(
        CASE WHEN %(available_at)s::timestamptz IS NULL AND %(delay_s)s::float8 IS NULL
          THEN was.available_at END,
        CASE WHEN %(available_at)s::timestamptz IS NOT NULL
          THEN greatest(%(available_at)s::timestamptz, clock_timestamp())
          ELSE clock_timestamp() + make_interval(secs => coalesce(%(delay_s)s::float8, 0)) END
        + make_interval(
          secs => %(spread_s)s::float8 * (was.nth - 1) / (SELECT count(*) FROM target)))
      ELSE coalesce(
        CASE WHEN %(available_at)s::timestamptz IS NOT NULL
          THEN greatest(%(available_at)s::timestamptz, clock_timestamp()) END,
        clock_timestamp() + make_interval(secs => %(delay_s)s::float8),
        was.available_at) END""",
    event="'rescheduled'",
    data=_PLACES,
)

# Only the due time changes: those of a higher priority, and those that are due already, stay ahead.
RUN_NOW = _statement(
    Verb.RESCHEDULE,
    guard="j.status = 'queued' AND j.available_at > clock_timestamp()",
    sets="available_at = clock_timestamp()",
    event="'rescheduled'",
    data=_PLACES,
)


def _each(name: str, of_type: str) -> str:
    """What a list of values has for a job, by its place among the ids."""
    return f"(%({name})s::{of_type}[])[array_position(%(ids)s::bigint[], j.id)]"


# The undo of a cancel. Whoever asks has locked the rows and seen in the ledger what each was.
RESTORE = _statement(
    Verb.RESTORE,
    guard="j.cancel_requested_at IS NULL AND j.attempts < j.max_attempts",
    sets=f"""
    status = {_each("statuses", "text")}, held_for = {_each("held_for", "text")},
    finished_at = NULL""",
    event="'restored'",
    data="""jsonb_build_object('available_at', j.available_at)
      || CASE WHEN j.held_for IS NULL THEN '{}'::jsonb
         ELSE jsonb_build_object('held_for', j.held_for) END""",
)

# The undo of a reschedule, likewise.
PUT_BACK = _statement(
    Verb.RESCHEDULE,
    sets=f"""
    priority = {_each("priorities", "smallint")},
    available_at = {_each("available_at", "timestamptz")}""",
    event="'rescheduled'",
    data=_PLACES,
)


# The attempt is not given back: its holder may be at work, and a job that loses its holder again
# and again must come to an end.
def _release(guard: str) -> str:
    return _statement(
        Verb.RELEASE,
        guard=guard,
        sets="""
    status = CASE WHEN was.cancel_requested_at IS NOT NULL THEN 'cancelled'
                  WHEN was.attempts >= was.max_attempts THEN 'failed' ELSE 'queued' END,
    (finished_at, started_at, progress, progress_note) = (SELECT
      clock_timestamp(), j.started_at, j.progress, j.progress_note
      WHERE was.cancel_requested_at IS NOT NULL OR was.attempts >= was.max_attempts),
    locked_by = NULL, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL,
    error_class = %(error_class)s, error_message = %(error_message)s,
    error_fingerprint = %(fingerprint)s""",
        event="CASE j.status WHEN 'queued' THEN 'released' ELSE j.status END",
        own_reason="CASE j.status WHEN 'failed' THEN 'released_on_last_attempt' END",
        data="""jsonb_build_object('attempts', j.attempts, 'available_at', j.available_at,
      'error_fingerprint', j.error_fingerprint, 'released_token', was.lease_token)
      || CASE j.status WHEN 'failed'
         THEN jsonb_build_object('cause', 'released_on_last_attempt') ELSE '{}'::jsonb END""",
    )


RELEASE = _release("j.lease_token = %(token)s")

# Claims by when they were made: that tells those of a job apart, and their tokens are shown to
# nobody.
RELEASE_CLAIMS = _release(
    "j.locked_by = %(holder)s AND j.claimed_at = (%(claimed)s::timestamptz[])"
    "[array_position(%(ids)s::bigint[], j.id)]"
)

# A row has no status to be moved to, so this is no rendering of the template; the same holds of it.
# The ledger keeps what retention keeps of a job that it removes.
PURGE = f"""
WITH target AS MATERIALIZED (
  SELECT j.id, j.status FROM jobs j
  WHERE j.id = ANY(%(ids)s::bigint[]) AND j.status IN ({_statuses(Verb.PURGE)})
    AND ({AS_SEEN})
  ORDER BY j.id FOR UPDATE SKIP LOCKED
),
gone AS (
  DELETE FROM jobs j USING target was WHERE j.id = ANY(ARRAY[was.id]) AND j.status = was.status
  RETURNING j.id, j.kind, j.status, j.attempts, j.producer, j.idempotency_key
),
logged AS (
  INSERT INTO job_events (job_id, kind, event, from_status, to_status, attempt, actor, reason, data)
  SELECT id, kind, 'purged', status, NULL, attempts, %(actor)s, %(reason)s::text,
    {_TOLD} || {KEPT}
  FROM gone ORDER BY id
  RETURNING job_id AS id, event, from_status, to_status
)
SELECT id, event, from_status, to_status FROM logged ORDER BY id
"""
