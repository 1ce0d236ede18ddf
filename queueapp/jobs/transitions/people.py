"""The verbs of people and producers: cancel, requeue, hold, unhold, reschedule, release.

Each is one statement over any number of ids: it locks the rows it may move in id order (rows that
somebody else has locked are left out), moves them, and writes their ledger lines. ``single`` is the
same for one job, with the wait and the clear refusal that a person expects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from queueapp.jobs.database import Database, run, wake_on_commit
from queueapp.jobs.failure import described
from queueapp.jobs.status import Event, HeldFor, Status, Verb, sources


@dataclass(frozen=True)
class Moved:
    """One job that a verb has moved, as the ledger has it."""

    id: int
    event: Event
    from_status: Status
    to_status: Status


class PersonVerb(Protocol):
    """The shape of every function here: (database, ids, *, actor, reason, via, …)."""

    __name__: str

    def __call__(self, *args: Any, **how: Any) -> list[Moved]:
        """Move those of the ids that allow it."""


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
    statuses = ", ".join(f"'{status}'" for status in sources(verb))
    return f"""
WITH target AS MATERIALIZED (
  SELECT j.id, j.status, j.priority, j.available_at, j.attempts, j.handbacks, j.max_attempts,
    j.cancel_requested_at, row_number() OVER () AS nth
  FROM (
    SELECT * FROM jobs j
    WHERE j.id = ANY(%(ids)s::bigint[]) AND j.status IN ({statuses}) AND ({guard})
    ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
  ) j
),
moved AS (
  UPDATE jobs j SET {sets}
  FROM target was WHERE j.id = ANY(ARRAY[was.id]) AND j.status = was.status
  RETURNING j.id, j.kind, j.status, was.status AS was_status, was.attempts AS was_attempts,
    {event} AS event, coalesce(%(reason)s::text, {own_reason}) AS reason,
    jsonb_build_object('via', %(via)s::text) || {data} AS data
),
logged AS (
  INSERT INTO job_events (job_id, kind, event, from_status, to_status, attempt, actor, reason, data)
  SELECT id, kind, event, was_status, status, was_attempts, %(actor)s, reason, data
  FROM moved ORDER BY id
  RETURNING job_id AS id, event, from_status, to_status
)
SELECT id, event, from_status, to_status FROM logged ORDER BY id
"""


_CANCEL = _statement(
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
      ELSE '{}'::jsonb END""",
)

# The last error stays on the row until the next end: it says why somebody pressed retry.
_REQUEUE = _statement(
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

_HOLD = _statement(
    Verb.HOLD,
    sets="status = 'held', held_for = %(held_for)s",
    event="'held'",
    data="jsonb_build_object('held_for', j.held_for)",
)

_UNHOLD = _statement(
    Verb.UNHOLD,
    guard="%(held_for)s::text IS NULL OR j.held_for = %(held_for)s",
    sets="""
    status = 'queued', held_for = NULL,
    available_at = CASE WHEN %(spread_s)s::float8 > 0
      THEN greatest(was.available_at, clock_timestamp()) + make_interval(
        secs => %(spread_s)s::float8 * (was.nth - 1) / (SELECT count(*) FROM target))
      ELSE was.available_at END""",
    event="'unheld'",
    data="""jsonb_build_object('available_at', j.available_at,
      'was', jsonb_build_object('available_at', was.available_at))""",
)

_RESCHEDULE = _statement(
    Verb.RESCHEDULE,
    sets="""
    priority = coalesce(%(priority)s::smallint, was.priority),
    available_at = coalesce(
      %(available_at)s::timestamptz,
      clock_timestamp() + make_interval(secs => %(delay_s)s::float8),
      was.available_at)""",
    event="'rescheduled'",
    data="""jsonb_build_object('priority', j.priority, 'available_at', j.available_at,
      'was', jsonb_build_object('priority', was.priority, 'available_at', was.available_at))""",
)

# The attempt is not given back: its holder may be at work, and a job that loses its holder again
# and again must come to an end.
_RELEASE = _statement(
    Verb.RELEASE,
    guard="j.lease_token = %(token)s",
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
      'error_fingerprint', j.error_fingerprint, 'released_token', %(token)s::text)
      || CASE j.status WHEN 'failed'
         THEN jsonb_build_object('cause', 'released_on_last_attempt') ELSE '{}'::jsonb END""",
)


def cancel(
    database: Database,
    ids: Sequence[int],
    *,
    actor: str,
    reason: str | None = None,
    via: str | None = None,
) -> list[Moved]:
    """Cancel waiting jobs for good; ask the handlers of running ones to stop.

    Once asked, a running job can only end as cancelled – or as succeeded, if it was faster.
    """
    return _apply(database, _CANCEL, ids, actor=actor, reason=reason, via=via)


def requeue(
    database: Database,
    ids: Sequence[int],
    *,
    actor: str,
    reason: str | None = None,
    via: str | None = None,
) -> list[Moved]:
    """Let failed and cancelled jobs run again now, with all their attempts. Buttons say "retry"."""
    moved = _apply(database, _REQUEUE, ids, actor=actor, reason=reason, via=via)
    return _wake(database, moved)


def hold(
    database: Database,
    ids: Sequence[int],
    *,
    actor: str,
    reason: str | None = None,
    via: str | None = None,
    held_for: HeldFor = "job",
) -> list[Moved]:
    """Park queued jobs: they keep their place. ``held_for`` says what may lift it."""
    return _apply(database, _HOLD, ids, actor=actor, reason=reason, via=via, held_for=held_for)


def unhold(
    database: Database,
    ids: Sequence[int],
    *,
    actor: str,
    reason: str | None = None,
    via: str | None = None,
    held_for: HeldFor | None = None,
    spread_s: float = 0,
) -> list[Moved]:
    """Let held jobs go on. ``spread_s`` > 0 spreads their due times over so many seconds."""
    how = {"held_for": held_for, "spread_s": spread_s}
    return _wake(
        database, _apply(database, _UNHOLD, ids, actor=actor, reason=reason, via=via, **how)
    )


def reschedule(
    database: Database,
    ids: Sequence[int],
    *,
    actor: str,
    reason: str | None = None,
    via: str | None = None,
    priority: int | None = None,
    available_at: datetime | None = None,
    delay_s: float | None = None,
) -> list[Moved]:
    """Move waiting jobs in the line. ``available_at`` wins over ``delay_s`` (0: due now)."""
    how = {"priority": priority, "available_at": available_at, "delay_s": delay_s}
    moved = _apply(database, _RESCHEDULE, ids, actor=actor, reason=reason, via=via, **how)
    return _wake(database, moved)


def release(
    database: Database,
    ids: Sequence[int],
    *,
    actor: str,
    reason: str | None = None,
    via: str | None = None,
    token: UUID,
) -> list[Moved]:
    """Take a running job from the holder of ``token``: it may run twice if the holder is alive.

    The attempt counts. With all attempts used up the job ends as failed.
    """
    failure = described("Released", "a person took the job from its holder")
    how = {
        "token": token,
        "error_class": failure.error_class,
        "error_message": failure.message,
        "fingerprint": failure.fingerprint,
    }
    moved = _apply(database, _RELEASE, ids, actor=actor, reason=reason, via=via, **how)
    return _wake(database, moved)


def _apply(
    database: Database, statement: str, ids: Sequence[int], **parameters: Any
) -> list[Moved]:
    rows = run(database, statement, ids=list(ids), **parameters)
    return [
        Moved(row.id, Event(row.event), Status(row.from_status), Status(row.to_status))
        for row in rows
    ]


def _wake(database: Database, moved: list[Moved]) -> list[Moved]:
    if any(job.to_status is Status.QUEUED for job in moved):
        wake_on_commit(database)
    return moved
