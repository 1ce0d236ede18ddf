"""Enqueue: the one verb of producers. One statement for one job or five thousand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from queueapp.jobs.database import Database, run, wake_on_commit

# A rival's row with our key is committed but younger than our snapshot: the next statement sees it.
_ROUNDS = 5

# ids are drawn in the order of the request (nextval sits in the innermost select: beside the window
# function it would number in key order), rows are written in key order: no deadlocks between bulks.
# Due times count from this statement, not from the start of the producer's transaction.
_ENQUEUE = """
WITH item AS MATERIALIZED (
  SELECT o.*, row_number() OVER (PARTITION BY o.key ORDER BY o.pos) AS nth
  FROM (
    SELECT nextval(pg_get_serial_sequence('jobs', 'id')) AS new_id, u.pos, r.*
    FROM jsonb_array_elements(%(jobs)s::jsonb) WITH ORDINALITY AS u(item, pos)
    CROSS JOIN LATERAL jsonb_to_record(u.item) AS r(
      kind text, payload jsonb, priority smallint, delay_s float8, available_at timestamptz,
      max_attempts integer, timeout_s integer, key text, request_hash text)
  ) o
),
put AS (
  INSERT INTO jobs AS j (
    id, kind, payload, status, priority, available_at, created_at, max_attempts, timeout_s,
    producer, idempotency_key, request_hash)
  OVERRIDING SYSTEM VALUE
  SELECT new_id, kind, payload, 'queued', priority,
    coalesce(available_at, statement_timestamp() + make_interval(secs => coalesce(delay_s, 0))),
    statement_timestamp(), max_attempts, timeout_s, %(producer)s, key, request_hash
  FROM item
  WHERE key IS NULL OR nth = 1
  ORDER BY key NULLS FIRST, pos
  ON CONFLICT (producer, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
  RETURNING j.id, j.kind, j.idempotency_key, j.request_hash, j.priority, j.available_at
),
logged AS (
  INSERT INTO job_events (job_id, kind, event, to_status, attempt, actor, data)
  SELECT id, kind, 'enqueued', 'queued', 0, %(actor)s, jsonb_build_object(
    'priority', priority, 'available_at', available_at, 'via', %(via)s::text)
  FROM put ORDER BY id
)
SELECT i.pos, coalesce(n.id, k.id, old.id) AS id,
  CASE WHEN n.id IS NOT NULL THEN 'new'
       WHEN coalesce(k.id, old.id) IS NULL THEN 'unknown'
       WHEN coalesce(k.request_hash, old.request_hash) = i.request_hash THEN 'replay'
       ELSE 'conflict' END AS outcome,
  coalesce(n.request_hash, k.request_hash, old.request_hash) AS request_hash
FROM item i
LEFT JOIN put n ON n.id = i.new_id
LEFT JOIN put k ON k.idempotency_key = i.key
LEFT JOIN jobs old ON old.producer = %(producer)s AND old.idempotency_key = i.key
ORDER BY i.pos
"""


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A job as it will be written: checked, its handler's defaults resolved.

    ``delay_s`` counts from the enqueue by the database's clock; ``available_at`` wins over it.
    ``key`` and ``request_hash`` are given together or not at all.
    """

    kind: str
    payload: Any
    priority: int = 0
    delay_s: float | None = None
    available_at: datetime | None = None
    max_attempts: int = 5
    timeout_s: int | None = None
    key: str | None = None
    request_hash: str | None = None


@dataclass(frozen=True)
class Enqueued:
    """What became of one request: a new job, a replay of an earlier one, or another request's key.

    ``request_hash`` is the stored one: on a conflict it tells which fields differ.
    """

    id: int
    outcome: Literal["new", "replay", "conflict"]
    request_hash: str | None


def enqueue(
    database: Database, jobs: Sequence[NewJob], *, producer: str, actor: str, via: str
) -> list[Enqueued]:
    """Write ``jobs`` and their ledger lines; answers come in the order of the requests.

    Does not commit. A key that a rival transaction is writing right now makes this wait for it.
    """
    answers: dict[int, Enqueued] = {}
    open_ = dict(enumerate(jobs))
    for _ in range(_ROUNDS):
        if not open_:
            break
        places = list(open_)
        who = {"producer": producer, "actor": actor, "via": via}
        for row in run(database, _ENQUEUE, jobs=_document(open_.values()), **who):
            if row.outcome != "unknown":
                place = places[row.pos - 1]
                answers[place] = Enqueued(row.id, row.outcome, row.request_hash)
                del open_[place]
    if open_:
        raise RuntimeError(f"{len(open_)} keyed jobs stayed undecided after {_ROUNDS} rounds")
    if any(answer.outcome == "new" for answer in answers.values()):
        wake_on_commit(database)
    return [answers[place] for place in range(len(jobs))]


def _document(jobs: Any) -> str:
    # vars, not asdict: that would copy every payload to its depth.
    return json.dumps([vars(job) for job in jobs], default=datetime.isoformat, allow_nan=False)
