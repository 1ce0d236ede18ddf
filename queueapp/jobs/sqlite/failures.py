"""Failures by cause, releases and payloads side by side, without LATERAL and arrays."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from itertools import product
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.queries import deploys, failed_so, failures, line, payloads, samples
from queueapp.jobs.queries.priorities import MOST_PRIORITIES
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made, reworded
from queueapp.jobs.sqlite.values import clock

_LOOKED = f"""
SELECT {line._WAITS} FROM jobs WHERE status = 'queued' AND priority = :priority
  AND (available_at <= :now) = :is_due
ORDER BY available_at, created_at, id LIMIT :limit"""
_PRIORITIES = """
SELECT DISTINCT priority FROM jobs WHERE status = 'queued' ORDER BY priority DESC LIMIT :limit"""
_ON_HOLD = f"""
SELECT {line._WAITS} FROM jobs WHERE status = 'held' AND held_for = 'kind'
ORDER BY kind, id LIMIT :limit"""
_GROUP = ("error_fingerprint", "kind", "error_class", "jobs", "least_left", "most_left", "ids")


@instead_of(line._WAITING)
def _waiting(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    answers: list[tuple[Any, ...]] = []
    held = fetch(connection, _ON_HOLD, limit=given["limit"])
    looks: dict[str, tuple[Sequence[Row[Any]], bool]] = {
        "queued": _next(connection, given["limit"]),
        "held": (held, len(held) >= given["limit"]),
    }
    for status, (looked, is_cut) in looks.items():
        groups: dict[tuple[str, str], list[Row[Any]]] = defaultdict(list)
        for row in looked:
            if row.error_fingerprint is not None and (
                given["fingerprint"] in (None, row.error_fingerprint)
            ):
                groups[row.error_fingerprint, row.kind].append(row)
        told = [(*cause, *_told(rows, given["most_ids"])) for cause, rows in groups.items()]
        answers += [(status, is_cut, *one) for one in told or [(None,) * len(_GROUP)]]
    return made(("status", "is_cut", *_GROUP), answers)


def _next(connection: Connection, limit: int) -> tuple[list[Row[Any]], bool]:
    """Those of each priority that are due first, and soonest; and whether there are more."""
    now, found, is_cut = clock(), list[Row[Any]](), False
    priorities = fetch(connection, _PRIORITIES, limit=MOST_PRIORITIES)
    each = max(limit // max(len(priorities), 1), 1)
    for priority, is_due in product([row.priority for row in priorities], (True, False)):
        given = {"priority": priority, "is_due": is_due, "now": now}
        rows = fetch(connection, _LOOKED, **given, limit=max(each, line.HEAD))
        found, is_cut = [*found, *rows], is_cut or len(rows) >= each
    return found, is_cut


def _told(rows: Sequence[Row[Any]], most_ids: int) -> tuple[Any, ...]:
    left = [row.max_attempts - row.attempts for row in rows]
    ids = sorted(row.id for row in rows)[:most_ids]
    error_class = max((row.error_class for row in rows if row.error_class), default=None)
    return error_class, len(rows), min(left), max(left), ids


_ALIKE = "status = 'failed' AND error_fingerprint = f.value"
_NEWEST = f"SELECT id FROM jobs WHERE {_ALIKE} ORDER BY finished_at DESC, id DESC LIMIT 1"
reworded(
    failures._DETAILS,
    f"""
SELECT f.value AS fingerprint,
  (SELECT min(finished_at) FROM jobs WHERE {_ALIKE}) AS "first_at [instant_text]",
  newest.finished_at AS last_at, newest.id AS newest_id, newest.error_class,
  substr(coalesce(newest.error_message, waits.error_message), 1, 500) AS message,
  (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE {_ALIKE} LIMIT :bound)) AS failed,
  (SELECT json_group_array(id) FROM (
     SELECT id FROM jobs WHERE {_ALIKE} ORDER BY id LIMIT :most_ids)) AS "ids [json_text]"
FROM json_each(:fingerprints) f JOIN json_each(:waiting) w ON w.key = f.key
LEFT JOIN jobs newest ON newest.id = ({_NEWEST})
LEFT JOIN jobs waits ON waits.id = w.value AND waits.error_fingerprint = f.value
""",
)

# The plus keeps the instant a text until the end.
reworded(
    failed_so._FAILED_SO,
    """
SELECT fingerprint, count(newest) AS jobs, min(oldest) AS "first_at [instant_text]",
  max(newest) AS "last_at [instant_text]"
FROM (
  SELECT f.value AS fingerprint, min(+e.created_at) AS oldest, max(+e.created_at) AS newest
  FROM json_each(:ids) w JOIN json_each(:fingerprints) f ON f.key = w.key
  JOIN job_events e ON e.job_id = w.value
  WHERE e.event IN ('retry_scheduled', 'failed') AND e.data ->> 'error_fingerprint' = f.value
    AND e.created_at >= :lately AND e.created_at < :tomorrow
  GROUP BY w.key)
GROUP BY 1
""",
)

# Nothing but the end of the ledger is looked through, for the sample as well.
reworded(
    samples._SAMPLES,
    """
SELECT f.value AS fingerprint, substr(j.error_message, 1, 300) AS message,
  (SELECT max(+e.created_at) FROM job_events e
   WHERE e.event = 'retry_scheduled' AND e.data ->> 'error_fingerprint' = f.value
     AND e.created_at >= :lately AND e.created_at < :tomorrow
     AND e.id > (SELECT max(id) FROM job_events) - :looked_at) AS "retried_at [instant_text]"
FROM json_each(:fingerprints) f JOIN json_each(:ids) i ON i.key = f.key
LEFT JOIN jobs j ON j.id = i.value AND j.error_fingerprint = f.value
""",
)

reworded(
    deploys._RELEASES,
    """
SELECT data ->> 'release' AS release, min(created_at) AS "first_at [instant_text]"
FROM job_events
WHERE job_id IS NULL AND event = 'worker_seen' AND created_at >= :lately
  AND trim(data ->> 'release') <> ''
GROUP BY 1 ORDER BY 2 DESC LIMIT 2
""",
)

_PAYLOADS = """
SELECT id, payload AS "payload [json_text]" FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""


@instead_of(payloads._FIELDS)
def _fields(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    found = []
    for row in fetch(connection, _PAYLOADS, **given):
        payload = row.payload if isinstance(row.payload, dict) else {"": row.payload}
        for name in sorted(payload)[: payloads.MOST_FIELDS]:
            text = json.dumps(payload[name], ensure_ascii=False)
            mark = sha256(text.encode()).hexdigest()
            cut = len(text) > payloads.SHOWN
            found.append((row.id, name[:100], text[: payloads.SHOWN], cut, mark))
    return made(("id", "name", "shown", "cut", "mark"), sorted(found, key=lambda f: (f[1], f[0])))
