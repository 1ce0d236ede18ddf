"""The hot statement: settle what has finished and claim for the freed slots, ledger included.

One round trip and one commit. Every outcome is guarded by id and lease token alone: adding
``status = 'running'`` would let the planner serve the settle from the small running index and walk
its dead entries. Rows are locked in id order and a row that somebody else has locked is left for
the next turn, so that one locked row never stops the others and two writers never deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple
from uuid import UUID

from pydantic_core import to_json

from queueapp.jobs.claim import CLAIM_COLUMNS, CLAIM_ORDER, Claim, Holder, claiming
from queueapp.jobs.cursor import NOWHERE, Cursor
from queueapp.jobs.database import Database, run, run_hot
from queueapp.jobs.failure import Failure

SettleVerb = Literal["succeed", "retry", "fail", "release", "defer", "cancel"]


class Outcome(NamedTuple):
    """How one attempt ended. ``ran_s``: how long the handler ran, None when it never began.

    ``size``: about how many bytes of result and error the statement has to carry.
    """

    id: int
    token: UUID
    verb: SettleVerb
    claimed_at: datetime
    delay_s: float | None = None
    ran_s: float | None = None
    result: Any = None
    failure: Failure | None = None
    reason: str | None = None
    data: dict[str, Any] | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one round trip brought: the tokens accepted with their new status, and claims."""

    accepted: dict[UUID, str]
    claims: list[Claim]


_OUTCOMES = """
outcome AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS o(
    id bigint, token uuid, verb text, delay_s float8, ran_s float8, result jsonb,
    error_class text, error_message text, fingerprint text, reason text, data jsonb)
)"""

# Each row is found through the primary key, one probe an outcome, whatever the statistics say and
# whenever the plan was made: a subquery that locks stays a nested loop, and ``= ANY(ARRAY[id])``
# can neither be hashed nor merged. A plan kept from a small table would read a large one whole.
#
# A cancel request wins over every end but success, decided on the locked row, not on what the
# worker believed. ``given_back``: the attempt did not count. What was only waiting in a worker was
# never offered to a handler: that is no handback, and uses up nothing.
_SETTLED = """
locked AS MATERIALIZED (
  SELECT o.*, j.cancel
  FROM (SELECT * FROM outcome ORDER BY id) o
  CROSS JOIN LATERAL (
    SELECT j.cancel_requested_at IS NOT NULL AS cancel FROM jobs j
    WHERE j.id = o.id AND j.lease_token = o.token FOR NO KEY UPDATE SKIP LOCKED
  ) j
),
move AS (
  SELECT l.*, m.to_status,
    (m.to_status = 'queued' AND l.verb IN ('release', 'defer'))::int AS given_back
  FROM locked l
  CROSS JOIN LATERAL (SELECT CASE
    WHEN l.verb = 'succeed' THEN 'succeeded'
    WHEN l.verb = 'cancel' OR l.cancel THEN 'cancelled'
    WHEN l.verb = 'fail' THEN 'failed'
    ELSE 'queued' END AS to_status) m
),
settled AS (
  UPDATE jobs j SET
    status = m.to_status,
    locked_by = NULL, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL,
    attempts = j.attempts - m.given_back,
    handbacks = j.handbacks + CASE WHEN m.reason = 'prefetch_unused' THEN 0 ELSE m.given_back END,
    available_at = CASE WHEN m.to_status = 'queued' AND m.delay_s IS NOT NULL
      THEN clock_timestamp() + make_interval(secs => m.delay_s) ELSE j.available_at END,
    started_at = CASE WHEN m.to_status <> 'queued' THEN
      coalesce(j.started_at, clock_timestamp() - make_interval(secs => m.ran_s)) END,
    finished_at = CASE WHEN m.to_status <> 'queued' THEN clock_timestamp() END,
    progress = CASE WHEN m.to_status <> 'queued' THEN j.progress END,
    progress_note = CASE WHEN m.to_status <> 'queued' THEN j.progress_note END,
    result = m.result,
    error_class =
      CASE WHEN m.verb IN ('release', 'defer') THEN j.error_class ELSE m.error_class END,
    error_message =
      CASE WHEN m.verb IN ('release', 'defer') THEN j.error_message ELSE m.error_message END,
    error_fingerprint =
      CASE WHEN m.verb IN ('release', 'defer') THEN j.error_fingerprint ELSE m.fingerprint END
  FROM move m
  WHERE j.id = ANY(ARRAY[m.id]) AND j.lease_token = m.token
  RETURNING j.id, j.kind, j.status, j.attempts, j.handbacks, j.available_at, j.error_fingerprint,
    m.token, m.verb, j.attempts + m.given_back AS attempt, m.cancel, m.reason, m.data
)"""

# Ends other than success change what the ledger is folded into, so they carry the new values.
_SETTLED_EVENTS = """
  SELECT id, kind,
    CASE WHEN status <> 'queued' THEN status WHEN verb = 'retry' THEN 'retry_scheduled'
         WHEN verb = 'release' THEN 'released' ELSE 'deferred' END,
    'running', status, attempt, token, %(me)s,
    CASE WHEN cancel AND status = 'succeeded' THEN 'finished_before_cancel' ELSE reason END,
    CASE WHEN status = 'succeeded' THEN data ELSE coalesce(data, '{}'::jsonb) || jsonb_build_object(
      'attempts', attempts, 'handbacks', handbacks, 'available_at', available_at,
      'error_fingerprint', error_fingerprint) END
  FROM settled"""

# Before 17 nothing can be taken from an instant without end, but from its seconds.
_CLAIMED_EVENTS = """
  SELECT id, kind, 'claimed', 'queued', 'running', attempts, lease_token, %(me)s, NULL::text,
    jsonb_build_object('wait_ms',
      round((extract(epoch FROM claimed_at)
        - extract(epoch FROM greatest(available_at, created_at))) * 1000))
  FROM claimed"""

_LOGGED = """
logged AS (
  INSERT INTO job_events
    (job_id, kind, event, from_status, to_status, attempt, lease_token, actor, reason, data)
  {events}
)"""

_NO_CLAIM = ", ".join(["NULL"] * 9)  # payload to timeout_s

_SETTLE = f"""
WITH {_OUTCOMES},{_SETTLED},{_LOGGED.format(events=_SETTLED_EVENTS)}
SELECT status, token FROM settled
"""


@cache
def exchange_statement(*, only: bool, skip: bool) -> str:
    """Render the hot statement, with a filter on kinds where one is wanted."""
    # The planner knows nothing of what is in a coalesce. Of the bare comparison it would think that
    # hardly a row passes, and sort the whole queue to find it.
    kinds = " AND coalesce(j.kind = ANY(%(only)s), false)" if only else ""
    kinds += " AND coalesce(j.kind <> ALL(%(skip)s), true)" if skip else ""
    events = f"{_SETTLED_EVENTS}\n  UNION ALL{_CLAIMED_EVENTS}"
    statement = f"""
WITH RECURSIVE {_OUTCOMES},{_SETTLED},{claiming(kinds)},{_LOGGED.format(events=events)}
SELECT NULL AS settled, {CLAIM_COLUMNS}
FROM (SELECT * FROM claimed ORDER BY {CLAIM_ORDER}) c
UNION ALL
SELECT status, id, kind, {_NO_CLAIM}, token, NULL FROM settled
"""
    # The driver keeps what it has read of a statement only while that is short.
    return " ".join(statement.split())


def exchange(
    database: Database,
    outcomes: Sequence[Outcome],
    holder: Holder,
    *,
    slots: int,
    prefetch: int = 0,
    after: Cursor | None = None,
) -> Exchange:
    """Settle ``outcomes`` and claim up to ``slots`` + ``prefetch`` due jobs, in one statement.

    ``after``: look only behind those places, None: everywhere.

    An outcome whose token is missing from ``accepted`` was not written: ask ``explain``. Use an
    autocommit connection: in an open transaction ``now()`` is old and rows due since are missed.
    """
    rows = run_hot(
        database,
        exchange_statement(only=holder.only is not None, skip=bool(holder.skip)),
        outcomes=_document(outcomes),
        me=holder.name,
        lease=holder.lease_s,
        job_timeout=holder.job_timeout_s,
        n=slots + prefetch,
        slots=slots,
        only=list(holder.only or ()),
        skip=list(holder.skip),
        places=after.document() if after else NOWHERE,
    )
    accepted = {row[_TOKEN]: row[0] for row in rows if row[0] is not None}
    claims = [Claim._make(row[1:]) for row in rows if row[0] is None]
    return Exchange(accepted, claims)


_TOKEN = 1 + CLAIM_COLUMNS.split(", ").index("lease_token")


def settle(database: Database, outcomes: Sequence[Outcome], *, actor: str) -> dict[UUID, str]:
    """Settle without claiming; the new status of each token that was accepted."""
    rows = run(database, _SETTLE, outcomes=_document(outcomes), me=actor)
    return {row.token: row.status for row in rows}


# ``actor = me`` matters: the sweeper's end of the same token must read as lost, not as ours.
_EXPLAIN = """
WITH outcome AS MATERIALIZED (
  SELECT o.* FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS o(
    id bigint, token uuid, verb text, claimed_at timestamptz)
),
answer AS (
  SELECT o.id, o.token, o.verb, coalesce(
      (SELECT 'busy' FROM jobs j WHERE j.id = o.id AND j.lease_token = o.token),
      (SELECT e.to_status FROM job_events e
       WHERE e.job_id = o.id AND e.lease_token = o.token AND e.created_at >= o.claimed_at
         AND e.from_status = 'running' AND e.to_status <> 'running' AND e.actor = %(me)s LIMIT 1),
      'lost') AS answer,
    coalesce(
      (SELECT kind FROM jobs j WHERE j.id = o.id),
      (SELECT kind FROM job_events e WHERE e.job_id = o.id ORDER BY id DESC LIMIT 1)) AS kind
  FROM outcome o
),
logged AS (
  INSERT INTO job_events (job_id, kind, event, lease_token, actor, reason)
  SELECT id, kind, 'stale_write_rejected', token, %(me)s, verb
  FROM answer WHERE answer = 'lost' AND kind IS NOT NULL
)
SELECT token, answer FROM answer
"""


def explain(database: Database, outcomes: Sequence[Outcome], *, actor: str) -> dict[UUID, str]:
    """Why ``outcomes`` were not accepted, by token: busy, lost, or the status they led to before.

    Before: ``actor`` has settled that attempt, perhaps in another way, and the answer was not
    heard. Records the lost ones, but of jobs that nobody knows: they may come to be.
    """
    asked = [
        {"id": one.id, "token": one.token, "verb": one.verb, "claimed_at": one.claimed_at}
        for one in outcomes
    ]
    rows = run(database, _EXPLAIN, outcomes=to_json(asked).decode(), me=actor)
    return {row.token: row.answer for row in rows}


def _document(outcomes: Iterable[Outcome]) -> str:
    return to_json([_fields(outcome) for outcome in outcomes], inf_nan_mode="constants").decode()


def _fields(outcome: Outcome) -> dict[str, Any]:
    """What there is to say: absent and null are the same to the statement."""
    fields: dict[str, Any] = {
        "id": outcome.id,
        "token": outcome.token,
        "verb": outcome.verb,
        "ran_s": outcome.ran_s,
        "data": outcome.data,
    }
    for name in ("delay_s", "result", "reason"):
        if (value := getattr(outcome, name)) is not None:
            fields[name] = value
    if failure := outcome.failure:
        fields["error_class"] = failure.error_class
        fields["error_message"] = failure.message
        fields["fingerprint"] = failure.fingerprint
    return fields
