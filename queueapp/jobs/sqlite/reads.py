"""What workers and pages look up, where PostgreSQL's way of asking has no like here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs import control, draining, outlook
from queueapp.jobs.queries import activity, candidates, clock, depth, feed, ledger, touched
from queueapp.jobs.queries.filters import View
from queueapp.jobs.queries.priorities import share_of
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made, reworded
from queueapp.jobs.sqlite.values import clock as now_utc
from queueapp.jobs.sqlite.values import clock_text

# One probe for each priority, however many jobs wait.
_PRIORITIES = """
WITH RECURSIVE p(priority) AS (
  SELECT max(priority) FROM jobs WHERE status = 'queued'
  UNION ALL
  SELECT (SELECT max(j.priority) FROM jobs j
          WHERE j.status = 'queued' AND j.priority < p.priority)
  FROM p WHERE p.priority IS NOT NULL
)"""

_NEXT_DUE = f"""{_PRIORITIES}
SELECT min((SELECT min(j.available_at) FROM jobs j
            WHERE j.status = 'queued' AND j.priority = p.priority AND j.available_at > :after))
  AS "at [instant_text]"
FROM p"""

_RUNNING = """
SELECT claimed_at, lease_expires_at, lease_token, locked_by, cancel_requested_at FROM jobs
WHERE status = 'running'
ORDER BY claimed_at, id LIMIT 10000
"""

_LATEST = """
SELECT id, scope, event, actor, reason, created_at, data FROM job_events
WHERE id IN (
  SELECT max(id) FROM job_events
  WHERE job_id IS NULL AND event IN (SELECT value FROM json_each(:switches))
    AND created_at >= coalesce(:since, '-infinity')
  GROUP BY scope)
ORDER BY scope
"""
reworded(control.LATEST, _LATEST)


_NEWEST_CANARY = """
SELECT max(id) AS id FROM job_events
WHERE job_id IS NULL AND event = 'op_canary' AND created_at >= coalesce(:since, '-infinity')
"""


@instead_of(outlook._LOOK)
def _look(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    now = now_utc()
    due: datetime | None = fetch(connection, _NEXT_DUE, after="-infinity")[0].at
    running = fetch(connection, _RUNNING)
    cancels = [
        row.lease_token
        for row in running
        if row.locked_by == given["me"] and row.cancel_requested_at is not None
    ]
    latest = fetch(connection, _LATEST, switches=given["switches"], since=given["since"])
    drains = fetch(connection, draining.ASKED, me=given["me"], since=given["since"])
    [begun] = fetch(connection, _NEWEST_CANARY, since=given["since"])
    found = {
        "due_in_s": None if due is None else (due - now).total_seconds(),
        "overdue": sum(1 for row in running if row.lease_expires_at < now),
        "cancels": cancels,
        "switches": [dict(row._mapping) for row in latest],
        "drain": dict(drains[0]._mapping) if drains else None,
        "canary": begun.id,
        # No old snapshot keeps what is dead here: each look is at everything.
        "low": None,
        "places": None,
        "at": now,
    }
    return made(tuple(found), [tuple(found.values())])


# Whether anything has happened

_NEWEST = "SELECT max(id) AS id FROM job_events"
_NEWEST_OF_JOB = "SELECT max(id) AS id FROM job_events WHERE job_id = :job_id"
_ROW = """
SELECT status, priority, available_at, attempts, handbacks, held_for, lease_token,
  lease_expires_at, started_at, finished_at, cancel_requested_at, progress, progress_note
FROM jobs WHERE id = :job_id
"""


@instead_of(clock._PULSE)
def _pulse(connection: Connection, _given: Parameters) -> Sequence[Row[Any]]:
    newest = fetch(connection, _NEWEST)[0].id
    next_due = fetch(connection, _NEXT_DUE, after=clock_text())[0].at
    names = ("now", "newest", "open", "next_due_at")
    return made(names, [(now_utc(), newest and f"0.{newest}", None, next_due)])


@instead_of(clock._PULSE_OF_JOB)
def _pulse_of_job(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    rows = fetch(connection, _ROW, job_id=given["job_id"])
    if not rows:
        return ()
    now, row = now_utc(), rows[0]
    version = sha256(repr(tuple(row)).encode()).hexdigest()[:16]
    newest = fetch(connection, _NEWEST_OF_JOB, job_id=given["job_id"])[0].id
    names = ("now", "version", "due", "lasts", "newest")
    return made(names, [(now, version, row.available_at <= now, row.finished_at is None, newest)])


# Lists and counts

_WAITING = """
SELECT id FROM jobs WHERE status = 'queued' {side}
  AND available_at BETWEEN :available_from AND :available_to
  AND priority BETWEEN :priority_min AND :priority_max
ORDER BY priority DESC, available_at, created_at, id LIMIT :limit
"""
for _view, _side in (("DUE", "<="), ("SCHEDULED", ">")):
    _text = _WAITING.format(side=f"AND available_at {_side} now()")
    reworded(candidates._OF_VIEW[View[_view]], _text)
reworded(candidates._DUE_WITHIN, _WAITING.format(side=""))

reworded(
    candidates._HELD,
    """
SELECT id FROM jobs WHERE status = 'held' AND held_for = 'kind'
UNION ALL
SELECT id FROM jobs WHERE status = 'held' AND held_for = 'job' LIMIT :limit
""",
)
_OF_OPERATION = """
SELECT id, data FROM job_events
WHERE job_id IS NULL AND event IN ('op_canary', 'op_batch', 'op_done') AND scope = :scope
ORDER BY id DESC LIMIT :lines
"""


@instead_of(touched._TOUCHED)
def _touched(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    lines = fetch(connection, _OF_OPERATION, scope=given["scope"], lines=given["lines"])
    jobs = {job for line in lines for job in line.data.get("jobs", ())}
    found = {
        "lines": len(lines),
        "named": all("jobs" in line.data for line in lines),
        "moved": max((line.data["moved"] for line in lines), default=0),
        "lowest": min(jobs, default=None),
        "highest": max(jobs, default=None),
        "ids": sorted(jobs, reverse=True)[: given["limit"]],
    }
    return made(tuple(found), [tuple(found.values())])


reworded(candidates._KEYED, "SELECT id FROM jobs WHERE idempotency_key = :key LIMIT :limit")
reworded(
    activity._FAILED_SINCE,
    """
SELECT count(*) AS failed FROM (
  SELECT 1 FROM jobs WHERE status = 'failed' AND finished_at > shifted(now(), -:span)
  LIMIT :bound) bounded
""",
)

_DEPTHS = f"""{_PRIORITIES}
SELECT priority FROM p WHERE priority IS NOT NULL ORDER BY priority DESC LIMIT :most"""

_OF_PRIORITY = """
SELECT {columns} FROM jobs
WHERE status = 'queued' AND priority = :priority AND available_at {side} :now
ORDER BY available_at, created_at, id LIMIT :limit"""

_DUE = f"SELECT count(*) AS n FROM ({_OF_PRIORITY.format(columns='1', side='<=')})"
_LATER = f"SELECT count(*) AS n FROM ({_OF_PRIORITY.format(columns='1', side='>')})"
_TRIED = f"""
SELECT count(*) AS n FROM ({_OF_PRIORITY.format(columns="attempts", side=">")}) WHERE attempts > 0
"""
_OLDEST = _OF_PRIORITY.format(columns="id, kind, available_at, created_at", side="<=")


@instead_of(depth._DEPTH)
def _depth(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    now, looked = clock_text(), fetch(connection, _DEPTHS, most=given["priorities"])
    names = (
        "priority", "most", "due", "scheduled", "retrying", "oldest_id", "oldest_kind", "oldest_at",
    )  # fmt: skip
    depths, most = [], share_of(len(looked))
    for row in looked:
        where = {"priority": row.priority, "now": now}
        counts = [
            fetch(connection, statement, limit=limit, **where)[0].n
            for statement, limit in (
                (_DUE, most + 1),
                (_LATER, most + 1),
                (_TRIED, most // depth.TRIED),
            )
        ]
        oldest = fetch(connection, _OLDEST, limit=1, **where)
        told = [(one.id, one.kind, max(one.available_at, one.created_at)) for one in oldest]
        depths.append((row.priority, most, *counts, *(told[0] if told else (None, None, None))))
    return made(names, depths)


# The feed: whoever writes is alone, so the order of ids is the order of commits

reworded(
    feed._FEED,
    """
SELECT '0' AS xid, id, job_id, kind, scope, event, from_status, to_status, attempt, actor, reason,
  data, created_at
FROM job_events WHERE id >= :id ORDER BY id LIMIT :limit""",
)
reworded(
    feed._NEWEST,
    "SELECT '0' AS xid, id, created_at FROM job_events ORDER BY id DESC LIMIT 1",
)
reworded(feed._STATE, "SELECT '0' AS system, NULL AS held_back_s")


# The lines of one job

_OF_JOB = """
SELECT id, event, from_status, to_status, attempt, lease_token, actor,
  substr(reason, 1, 2000) AS reason, data, created_at
FROM job_events WHERE job_id = :job_id ORDER BY id DESC LIMIT :limit"""


@instead_of(ledger._OF_JOB)
def _of_job(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    rows = [dict(row._mapping) for row in fetch(connection, _OF_JOB, **given)]
    for row in rows:
        if isinstance(row["data"], dict):
            row["data"].pop("traceback", None)
            if message := row["data"].get("error_message"):
                row["data"]["error_message"] = message[:500]
    return made(tuple(rows[0]), [tuple(row.values()) for row in rows]) if rows else ()


@instead_of(ledger._LAST_FAILURE)
def _last_failure(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    names = ("id", "attempt", "created_at", "traceback")
    for row in fetch(connection, _OF_JOB, **given):
        if isinstance(row.data, dict) and "traceback" in row.data:
            trace = row.data["traceback"]
            cut = trace[:70_000] if trace else trace
            return made(names, [(row.id, row.attempt, row.created_at, cut)])
    return ()
