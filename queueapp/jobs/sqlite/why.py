"""Why a job stands where it does: the facts, read part by part in the one open snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.queries import drain
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made
from queueapp.jobs.sqlite.values import clock
from queueapp.jobs.why import statement

_EVENTS = """
SELECT id, event, to_status, actor, reason, created_at,
  data ->> 'available_at' AS available_at
FROM job_events WHERE job_id = :job_id ORDER BY id DESC LIMIT :events
"""

_SWITCHES = """
SELECT id, scope, event, actor, reason, created_at, data FROM job_events
WHERE id IN (
  SELECT max(id) FROM job_events
  WHERE job_id IS NULL AND event IN (SELECT value FROM json_each(:switches))
    AND scope IN ('queue', 'kind:' || :kind)
  GROUP BY scope)
"""

_WORKERS = """
SELECT seen.scope AS name, seen.created_at AS seen_at, seen.data AS data,
  stopped.created_at AS stopped_at, stopped.reason AS stopped_for
FROM job_events seen LEFT JOIN job_events stopped ON stopped.id = (
  SELECT max(e.id) FROM job_events e
  WHERE e.job_id IS NULL AND e.event = 'worker_stopped' AND e.scope = seen.scope AND e.id > seen.id)
WHERE seen.id IN (
  SELECT max(id) FROM job_events
  WHERE job_id IS NULL AND event = 'worker_seen' AND created_at >= :lately GROUP BY scope)
ORDER BY seen.scope LIMIT :most_workers
"""

_FIRST_SIGNS = """
SELECT scope AS name, min(created_at) AS "first_seen_at [instant_text]" FROM job_events
WHERE job_id IS NULL AND event = 'worker_seen' AND created_at >= :lately GROUP BY scope
"""

_RUNNING = """
SELECT id, kind, locked_by, started_at, lease_expires_at FROM jobs
WHERE status = 'running' ORDER BY claimed_at, id LIMIT :most_running
"""

_NEWEST_RUN = """
SELECT claimed_at FROM jobs WHERE status = 'running' ORDER BY claimed_at DESC, id DESC LIMIT 1
"""

_TAIL = "SELECT event, created_at FROM job_events ORDER BY id DESC LIMIT :tail"

_AHEAD = """
SELECT count(*) AS n FROM (
  SELECT 1 FROM jobs WHERE status = 'queued' AND priority > :priority AND available_at <= :now
  UNION ALL
  SELECT 1 FROM jobs WHERE status = 'queued' AND priority = :priority
    AND (available_at, created_at, id) < (:available_at, :created_at, :id)
  LIMIT :most_ahead)
"""

_LINES = """
SELECT created_at, data FROM job_events
WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue' AND created_at >= :lately
ORDER BY id DESC LIMIT :lines
"""

_PARTS = ("events", "workers", "holders", "ahead", "last_claim", "rates", "runs", "connections")


@instead_of(statement.SWITCHES)
def _switches(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    rows = fetch(connection, statement.JOB, job_id=given["job_id"])
    if not rows:
        return ()
    job, found = rows[0], None
    if job.status in ("queued", "held"):
        found = _dicts(fetch(connection, _SWITCHES, **given, kind=job.kind))
    return made(("now", "created_at", "switches"), [(clock(), job.created_at, found)])


@instead_of(statement.FACTS)
def _facts(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    rows = fetch(connection, statement.JOB, job_id=given["job_id"])
    if not rows:
        return ()
    job, now = rows[0], clock()
    asked = dict(given)
    found: dict[str, Any] = dict.fromkeys(_PARTS)
    found["events"] = _dicts(fetch(connection, _EVENTS, **asked))
    if job.status in ("queued", "held", "running"):
        found["workers"] = _dicts(fetch(connection, _WORKERS, **asked))
    if job.status == "queued":
        found["holders"] = _holders(fetch(connection, _RUNNING, **asked), job.kind, now)
        found["last_claim"] = _last_claim(connection, asked)
        found["rates"] = _rates(fetch(connection, _LINES, **asked, lines=given["rate_lines"]))
        if job.available_at <= now:
            place = {n: getattr(job, n) for n in ("priority", "available_at", "created_at", "id")}
            found["ahead"] = fetch(connection, _AHEAD, **asked, **place, now=now)[0].n
    if job.status == "running":
        lines = fetch(connection, _LINES, **asked, lines=given["run_lines"])
        found["runs"] = _runs(lines, job.kind)
    whole = {**job._mapping, "now": now, **found}
    return made(tuple(whole), [tuple(whole.values())])


@instead_of(drain._LINES)
def _drain(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    rates = _rates(fetch(connection, _LINES, **given))
    return made(("at", "since", "claims"), [tuple(rate.values()) for rate in rates])


@instead_of(statement.WORKERS)
def _workers(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    first = {row.name: row.first_seen_at for row in fetch(connection, _FIRST_SIGNS, **given)}
    found = [
        {**worker, "first_seen_at": first[worker["name"]]}
        for worker in _dicts(fetch(connection, _WORKERS, **given))
    ]
    return made(tuple(found[0]), [tuple(one.values()) for one in found]) if found else ()


def _dicts(rows: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in rows]


def _holders(running: Sequence[Row[Any]], kind: str, now: Any) -> list[dict[str, Any]]:
    holders: dict[str, list[Row[Any]]] = {}
    for row in running:
        holders.setdefault(row.locked_by, []).append(row)
    return [
        {
            "name": name,
            "started": sum(1 for row in rows if row.started_at),
            "has_kind": any(row.kind == kind and row.lease_expires_at > now for row in rows),
            "longest": _longest(rows),
        }
        for name, rows in holders.items()
    ]


def _longest(rows: Sequence[Row[Any]]) -> dict[str, Any]:
    first = min(rows, key=lambda row: (row.started_at is None, str(row.started_at), row.id))
    return {"id": first.id, "kind": first.kind, "started_at": first.started_at}


def _last_claim(connection: Connection, given: dict[str, Any]) -> datetime | None:
    lines = fetch(connection, _TAIL, **given)
    told = [line.created_at for line in lines if line.event == "claimed"]
    if not told and len(lines) >= given["tail"]:
        told = [lines[-1].created_at]
    return max(
        [*told[:1], *(row.claimed_at for row in fetch(connection, _NEWEST_RUN))], default=None
    )


def _rates(lines: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    return [
        {"at": row.created_at, "since": row.data.get("since"), "claims": _claims(row.data)}
        for row in lines
    ]


def kinds_of(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a minute's line tells of each kind; nothing where it has something else than that."""
    kinds = _object(data.get("kinds"))
    parts = ("events", "wait", "run")
    return {
        kind: {**_object(told), **{part: _object(_object(told).get(part)) for part in parts}}
        for kind, told in kinds.items()
    }


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _claims(data: dict[str, Any]) -> int:
    told: list[dict[str, int]] = [kind["events"] for kind in kinds_of(data).values()]
    given_back = sum(one.get("released", 0) + one.get("deferred", 0) for one in told)
    return sum(one.get("claimed", 0) for one in told) - given_back


def _runs(lines: Sequence[Row[Any]], kind: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in lines:
        for bucket, n in kinds_of(row.data).get(kind, {}).get("run", {}).items():
            found[bucket] = found.get(bucket, 0) + n
    return found
