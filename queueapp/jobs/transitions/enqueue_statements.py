"""The statements of enqueue; they share their parts, and each writes its ledger lines."""

from __future__ import annotations

from queueapp.jobs.models import Job
from queueapp.jobs.room import GATE, LAST_ID

# Due times count from this statement, not from the start of the producer's transaction.
_DUE = "coalesce({at}, statement_timestamp() + make_interval(secs => coalesce({delay}, 0)))"

_INTO = """jobs AS j (
    kind, payload, status, priority, available_at, created_at, max_attempts, timeout_s, producer,
    idempotency_key, request_hash"""

_NOT_TWICE = """ON CONFLICT (producer, idempotency_key) WHERE idempotency_key IS NOT NULL
    DO NOTHING"""

_LOGGED = """logged AS (
  INSERT INTO job_events (job_id, kind, event, to_status, attempt, actor, data)
  SELECT id, kind, 'enqueued', 'queued', 0, %(actor)s, jsonb_build_object(
    'priority', priority, 'available_at', available_at, 'via', %(via)s::text)
  FROM put ORDER BY id
)"""

_PUT = f"""
WITH put AS (
  INSERT INTO {_INTO})
  VALUES (%(kind)s, %(payload)s::jsonb, 'queued', %(priority)s,
    {_DUE.format(at="%(available_at)s::timestamptz", delay="%(delay_s)s::float8")},
    statement_timestamp(), %(max_attempts)s, %(timeout_s)s, %(producer)s, {{key}})
  {{unless}}
  RETURNING {{put}}
),
{_LOGGED}
SELECT 'new' AS outcome, {{columns}} FROM put
"""

# Without a key there is no rival to look for.
_FRESH = _PUT.replace("{key}", "NULL, NULL").replace("{unless}", "")
_OF_KEY = "producer = %(producer)s AND idempotency_key = %(key)s"
_KNOWN = f"""UNION ALL
SELECT CASE WHEN request_hash = %(request_hash)s THEN 'replay' ELSE 'conflict' END, {{columns}}
FROM jobs
WHERE {_OF_KEY} AND NOT EXISTS (SELECT FROM put)
"""
# Without a row: a rival's transaction has the key.
_ONE = _PUT.replace("{key}", "%(key)s, %(request_hash)s").replace("{unless}", _NOT_TWICE) + _KNOWN
# By name: a column that is added must not change what a prepared statement answers.
_COLUMNS = Job.__table__.columns.keys()
_WHOLE = ", ".join(_COLUMNS)
_LINE = "id, kind, priority, available_at, request_hash"

ONE = _ONE.format(put=_LINE, columns="id, request_hash")
ONE_WHOLE = _ONE.format(put=_WHOLE, columns=_WHOLE)
FRESH = _FRESH.format(put=_LINE, columns="id, request_hash")
FRESH_WHOLE = _FRESH.format(put=_WHOLE, columns=_WHOLE)

# Below a ceiling of ids (``queueapp.jobs.room``), in the same one statement: the number is drawn
# behind the gate and has to be low enough. Nothing is written, and hardly a number drawn, without.
_PUT_BELOW = f"""
WITH gate AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({GATE})),
place AS MATERIALIZED (
  SELECT nextval(pg_get_serial_sequence('jobs', 'id')) AS id FROM gate
  WHERE {LAST_ID} < %(ceiling)s::bigint
),
put AS (
  INSERT INTO {_INTO}, id)
  OVERRIDING SYSTEM VALUE
  SELECT %(kind)s::text, %(payload)s::jsonb, 'queued', %(priority)s::smallint,
    {_DUE.format(at="%(available_at)s::timestamptz", delay="%(delay_s)s::float8")},
    statement_timestamp(), %(max_attempts)s::integer, %(timeout_s)s::integer, %(producer)s::text,
    {{key}}, place.id
  FROM place WHERE place.id <= %(ceiling)s::bigint
  {{unless}}
  RETURNING {{put}}
),
{_LOGGED}
SELECT 'new' AS outcome, {{columns}} FROM put
{{known}}UNION ALL
SELECT 'full', {{nulls}}
WHERE NOT EXISTS (SELECT FROM place WHERE id <= %(ceiling)s::bigint){{unknown}}
"""
_FRESH_BELOW = (
    _PUT_BELOW.replace("{key}", "NULL, NULL")
    .replace("{unless}", "")
    .replace("{known}", "")
    .replace("{unknown}", "")
)
_ONE_BELOW = (
    _PUT_BELOW.replace("{key}", "%(key)s::text, %(request_hash)s::text")
    .replace("{unless}", _NOT_TWICE)
    .replace("{known}", _KNOWN)
    .replace("{unknown}", f"\n  AND NOT EXISTS (SELECT FROM jobs WHERE {_OF_KEY})")
)

_SHORT = {"put": _LINE, "columns": "id, request_hash", "nulls": "NULL, NULL"}
_LONG = {"put": _WHOLE, "columns": _WHOLE, "nulls": ", ".join(["NULL"] * len(_COLUMNS))}
ONE_BELOW, ONE_WHOLE_BELOW = _ONE_BELOW.format(**_SHORT), _ONE_BELOW.format(**_LONG)
FRESH_BELOW, FRESH_WHOLE_BELOW = _FRESH_BELOW.format(**_SHORT), _FRESH_BELOW.format(**_LONG)

# A clone, and the line of the original that leads to it.
_CLONED = """logged AS (
  INSERT INTO job_events (job_id, kind, event, to_status, attempt, actor, reason, data)
  SELECT id, kind, 'enqueued', 'queued', 0, %(actor)s::text, %(reason)s::text, jsonb_build_object(
    'priority', priority, 'available_at', available_at, 'via', %(via)s::text,
    'cloned_from', %(original)s::bigint)
  FROM put
  UNION ALL
  SELECT %(original)s::bigint, kind, 'cloned', NULL, %(attempts)s::integer, %(actor)s::text,
    %(reason)s::text,
    jsonb_build_object('job', id, 'via', %(via)s::text) || %(request)s::jsonb
  FROM put
)"""
CLONE, CLONE_BELOW = (one.replace(_LOGGED, _CLONED) for one in (FRESH_WHOLE, FRESH_WHOLE_BELOW))

_RECORD = """kind text, payload jsonb, priority smallint, delay_s float8, available_at timestamptz,
    max_attempts integer, timeout_s integer"""

# Numbers are given in the order of writing, which is the order of the request.
MANY = f"""
WITH item AS (
  SELECT * FROM ROWS FROM (jsonb_to_recordset(%(jobs)s::jsonb) AS (
    {_RECORD})) WITH ORDINALITY
  AS u (kind, payload, priority, delay_s, available_at, max_attempts, timeout_s, pos)
),
put AS (
  INSERT INTO {_INTO})
  SELECT kind, payload, 'queued', priority, {_DUE.format(at="available_at", delay="delay_s")},
    statement_timestamp(), max_attempts, timeout_s, %(producer)s, NULL, NULL
  FROM item ORDER BY pos
  RETURNING j.id, j.kind, j.priority, j.available_at
),
{_LOGGED}
SELECT id FROM put ORDER BY id
"""

# ids are drawn in the order of the request (nextval sits in the innermost select: beside the window
# function it would number in key order), rows are written in key order: no deadlocks between bulks.
KEYED = f"""
WITH item AS MATERIALIZED (
  SELECT o.*, row_number() OVER (PARTITION BY o.key ORDER BY o.pos) AS nth
  FROM (
    SELECT coalesce(u.id, nextval(pg_get_serial_sequence('jobs', 'id'))) AS new_id, u.*
    FROM ROWS FROM (jsonb_to_recordset(%(jobs)s::jsonb) AS (
      {_RECORD}, key text, request_hash text, id bigint)) WITH ORDINALITY
    AS u (kind, payload, priority, delay_s, available_at, max_attempts, timeout_s, key,
      request_hash, id, pos)
  ) o
),
put AS (
  INSERT INTO {_INTO}, id)
  OVERRIDING SYSTEM VALUE
  SELECT kind, payload, 'queued', priority, {_DUE.format(at="available_at", delay="delay_s")},
    statement_timestamp(), max_attempts, timeout_s, %(producer)s, key, request_hash, new_id
  FROM item
  WHERE key IS NULL OR nth = 1
  ORDER BY key COLLATE "C" NULLS FIRST, pos
  {_NOT_TWICE}
  RETURNING j.id, j.kind, j.idempotency_key, j.request_hash, j.priority, j.available_at
),
{_LOGGED}
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

IDS = """
SELECT nextval(pg_get_serial_sequence('jobs', 'id')) AS id FROM generate_series(1, %(n)s)
"""
