"""The readings of the verdict, and what people did last: part by part in the one open snapshot."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.queries import actions, failures
from queueapp.jobs.queries.line import SHOWN_IDS
from queueapp.jobs.queries.priorities import share_of
from queueapp.jobs.sqlite.reads import _DEPTHS, _LATEST, _OF_PRIORITY
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made, row_of
from queueapp.jobs.sqlite.values import clock, clock_text
from queueapp.jobs.verdict import statements, suspects
from queueapp.jobs.why.statement import MOST_RUNNING

_RUNNING = f"""
SELECT id, kind, priority, locked_by, started_at, claimed_at, lease_expires_at, timeout_s,
  cancel_requested_at
FROM jobs WHERE status = 'running' ORDER BY claimed_at, id LIMIT {MOST_RUNNING}
"""
_DUE = f"SELECT count(*) AS n FROM ({_OF_PRIORITY.format(columns='1', side='<=')})"
_HEAD = _OF_PRIORITY.format(columns="id, kind, available_at, created_at", side="<=")
_HELD = """
SELECT count(*) AS n, min(since_at) AS at FROM (
  SELECT available_at, max(available_at, created_at) AS since_at FROM jobs
  WHERE status = 'held' AND held_for = 'kind' AND kind = :kind
  LIMIT :limit) WHERE available_at <= :now
"""
_ENDED = """
SELECT finished_at AS at FROM jobs
WHERE finished_at IS NOT NULL AND (status <> 'cancelled' OR started_at IS NOT NULL)
ORDER BY 1 DESC LIMIT 1
"""
_RETRIED = f"""
SELECT event, created_at, data FROM job_events ORDER BY id DESC LIMIT {statements.TAIL}
"""
_TRIED = f"""
SELECT id, kind, status, attempts, error_class, error_fingerprint, finished_at, available_at,
  cancel_requested_at
FROM jobs
WHERE (attempts > 0 OR error_fingerprint IS NOT NULL)
  AND (status IN ('running', 'queued') OR status = 'held' AND held_for = 'kind'
  OR status = 'failed' AND finished_at > :day)
ORDER BY id DESC LIMIT {statements.MOST_SOONEST}
"""
_HISTORY = "SELECT id, event, data, created_at FROM job_events WHERE job_id = :id ORDER BY id"
_EVER = """
SELECT min(seen) AS at FROM (
  SELECT min(+finished_at) AS seen FROM jobs WHERE error_fingerprint = :f AND status = 'failed'
  UNION ALL
  SELECT min(+created_at) FROM job_events
  WHERE job_id IN (SELECT value FROM json_each(:ids)) AND event IN ('failed', 'retry_scheduled')
    AND data ->> 'error_fingerprint' = :f)
"""
_TAIL = """
SELECT id, job_id, scope, event, actor, reason, data, created_at FROM job_events
WHERE (job_id IS NOT NULL AND event IN (SELECT value FROM json_each(:moves)))
  OR (job_id IS NULL AND event IN (SELECT value FROM json_each(:control)))
ORDER BY id DESC LIMIT :looked_at
"""


@instead_of(statements.SWITCHES)
def _switches(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    latest = fetch(connection, _LATEST, **given)
    return row_of(
        now=clock(),
        read_only=False,
        in_recovery=False,
        switches=[dict(row._mapping) for row in latest],
    )


@instead_of(statements.LINE)
def _line(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    now, running = clock(), fetch(connection, _RUNNING)
    begun = [row for row in running if row.started_at]
    holders, kinds = _by(running, "locked_by"), _by(begun, "kind")
    cut = {row.id for row in begun if _is_cut(row, given["job_timeout"])}
    return row_of(
        now=now,
        heads=_heads(connection, given),
        priorities=len(fetch(connection, _DEPTHS, most=given["priorities"])),
        running=len(running),
        overdue=sum(1 for row in running if row.lease_expires_at < now),
        first_expiry=min((row.lease_expires_at for row in running), default=None),
        highest=max((row.priority for row in begun), default=None),
        holders=[_holding(name, rows, cut) for name, rows in holders.items()],
        kinds=[_run(kind, rows) for kind, rows in kinds.items()],
        held=_held(connection, given["held"]),
        unmoved=_unmoved(connection, given),
        ended_at=_ended_at(connection),
        lapsed={
            row.data["holder"]: row.data.get("lease_expires_at")
            for row in reversed(fetch(connection, _RETRIED))
            if row.event == "lease_expired" and "died" not in row.data and "holder" in row.data
        },
    )


def _is_cut(row: Row[Any], job_timeout: float) -> bool:
    timeout = job_timeout if row.timeout_s is None else row.timeout_s
    ends = row.started_at + timedelta(seconds=timeout)
    return bool(timeout) and ends <= row.lease_expires_at + timedelta(seconds=1)


def _holding(name: str, rows: list[Row[Any]], cut: set[int]) -> dict[str, Any]:
    ends = [row.lease_expires_at for row in rows]
    told = [row.lease_expires_at for row in rows if row.id not in cut]
    return {
        "name": name, "jobs": len(rows), "first_expiry": min(ends), "last_expiry": max(ends),
        "renewed_to": max(told, default=None),
    }  # fmt: skip


def _run(kind: str, rows: list[Row[Any]]) -> dict[str, Any]:
    first = min(rows, key=lambda row: (row.started_at, row.id))
    last_at = max(row.started_at for row in rows)
    asked = [row.cancel_requested_at for row in rows if row.cancel_requested_at]
    return {
        "kind": kind, "jobs": len(rows), "first_id": first.id, "first_at": first.started_at,
        "last_at": last_at, "asked": len(asked), "asked_at": min(asked, default=None),
    }  # fmt: skip


def _heads(connection: Connection, given: Parameters) -> list[dict[str, Any]]:
    kinds = given["kinds"]
    found = []
    looked = fetch(connection, _DEPTHS, most=given["priorities"])
    most = share_of(len(looked))
    for row in looked:
        where = {"priority": row.priority, "now": clock_text()}
        head = fetch(connection, _HEAD, limit=statements.HEAD, **where)
        if not head:
            continue
        able = next((job for job in head if kinds is None or job.kind in kinds), None)
        found.append(
            {
                "priority": row.priority,
                "most": most,
                "jobs": fetch(connection, _DUE, limit=most + 1, **where)[0].n,
                **_place("", head[0]),
                **_place("able_", able),
            }
        )
    return found


def _place(prefix: str, job: Row[Any] | None) -> dict[str, Any]:
    told = (None, None, None)
    if job:
        told = (job.id, job.kind, max(job.available_at, job.created_at))
    return dict(zip((f"{prefix}{name}" for name in ("id", "kind", "at")), told, strict=True))


def _held(connection: Connection, kinds: Sequence[str]) -> list[dict[str, Any]]:
    given = {"now": clock_text(), "limit": statements.MOST_HELD + 1}
    counted = {kind: fetch(connection, _HELD, kind=kind, **given)[0] for kind in kinds}
    return [{"kind": kind, "jobs": row.n, "at": row.at} for kind, row in counted.items() if row.n]


def _unmoved(connection: Connection, given: Parameters) -> list[dict[str, Any]]:
    kinds = given["held"]
    if not kinds:
        return []
    first: list[Row[Any]] = []
    for row in fetch(connection, _DEPTHS, most=given["priorities"]):
        where = {"priority": row.priority, "now": clock_text()}
        first += fetch(connection, _HEAD, limit=statements.HEAD, **where)
    found = _by([job for job in first if job.kind in kinds], "kind")
    return [
        {
            "kind": kind,
            "jobs": len(jobs),
            "at": min(max(job.available_at, job.created_at) for job in jobs),
        }
        for kind, jobs in found.items()
    ]


def _ended_at(connection: Connection) -> datetime | None:
    ends = [row.at for row in fetch(connection, _ENDED)]
    ends += [r.created_at for r in fetch(connection, _RETRIED) if r.event == "retry_scheduled"][:1]
    return max(ends, default=None)


@instead_of(suspects.SUSPECTS)
def _suspects(connection: Connection, _given: Parameters) -> Sequence[Row[Any]]:
    names = ("id", "kind", "status", "times", "holders", "first_at", "last_at", "asked_at")
    now, found = clock(), []
    for job in fetch(connection, _TRIED, day=now - timedelta(hours=1)):
        blamed = job.status == "running" or job.error_class == "LeaseLost"
        if job.attempts < suspects.KILLED or not blamed:
            continue
        lost: list[Row[Any]] = []
        for line in fetch(connection, _HISTORY, id=job.id):
            told = (line.data or {}).get("error_class") if isinstance(line.data, dict) else None
            raised = line.event in ("failed", "retry_scheduled") and told != "LeaseLost"
            lost = [] if line.event == "requeued" or raised else lost
            lost += [line] if line.event == "lease_expired" else []
            if raised:
                break
        if len(lost) >= suspects.KILLED:
            holders = [line.data["holder"] for line in lost]
            at = (lost[0].created_at, lost[-1].created_at, job.cancel_requested_at)
            found.append((job.id, job.kind, job.status, len(lost), holders, *at))
    return made(names, sorted(found, key=lambda one: (-one[3], one[0]))[:10])


@instead_of(statements.GROUPS_OF)
def _groups(connection: Connection, _given: Parameters) -> Sequence[Row[Any]]:
    now = clock()
    rows = fetch(connection, _TRIED, day=now - timedelta(hours=24))
    failed = [row for row in rows if row.status == "failed"]
    waiting = (row for row in rows if row.status in ("queued", "held"))
    retrying = [row for row in waiting if row.error_fingerprint is not None]
    groups = [
        _group(connection, fingerprint, found)
        for fingerprint, found in _by([*failed, *retrying], "error_fingerprint").items()
    ]
    groups.sort(
        key=lambda one: failures.rank(
            one["lately"], one["failed"] + one["retrying"], one["fingerprint"] or "~"
        )
    )
    back_to = min((row.finished_at for row in failed), default=None)
    return row_of(
        failed=len(failed), retrying=len(retrying), back_to=back_to,
        groups=groups[: statements.GROUPS], is_cut=len(rows) >= statements.MOST_SOONEST,
    )  # fmt: skip


def _group(connection: Connection, fingerprint: Any, rows: list[Row[Any]]) -> dict[str, Any]:
    failed = [row for row in rows if row.finished_at]
    newest = max(failed, key=lambda row: row.finished_at, default=rows[0])
    first = sorted(row.id for row in failed)[:SHOWN_IDS]
    return {
        "fingerprint": fingerprint,
        "failed": len(failed),
        "retrying": len(rows) - len(failed),
        "anew": sum(row.status == "queued" and not row.attempts for row in rows),
        "lately": len(rows) - sum(row.finished_at <= clock() - failures.LATELY for row in failed),
        "last_at": newest.finished_at,
        "error_class": newest.error_class,
        "kind": newest.kind,
        "kinds": len({row.kind for row in rows}),
        "hit": sorted({row.kind for row in rows})[: statements.MOST_HIT],
        "sample": max(row.id for row in rows),
        "ever_at": fetch(connection, _EVER, f=fingerprint, ids=json.dumps(first))[0].at,
    }


@instead_of(actions._ACTIONS)
def _actions(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    names = ("id", "at", "event", "actor", "reason", "jobs", "job_id", "operation", "scope")
    found: dict[Any, list[Row[Any]]] = {}
    for row in fetch(connection, _TAIL, **given):
        surface = row.actor.partition(":")[0]
        machine = surface == "token" and row.event == "released"
        if row.job_id is not None and (surface not in ("user", "cli", "token") or machine):
            continue
        found.setdefault(_act(row), []).append(row)
    return made(names, [_told(rows) for rows in list(found.values())[: given["limit"]]])


def _act(row: Row[Any]) -> Any:
    """What makes lines one act; without ids of transactions, those of one second are one."""
    if row.job_id is None:
        return row.id
    together = (row.data or {}).get("operation") or int(row.created_at.timestamp())
    return row.event, row.actor, together


def _told(rows: list[Row[Any]]) -> tuple[Any, ...]:
    row, of_jobs = rows[0], rows[0].job_id is not None
    operation = (row.data or {}).get("operation") if of_jobs else None
    if not of_jobs and row.scope.startswith("op:"):
        operation = row.scope[3:]
    jobs = (len(rows), min(one.job_id for one in rows)) if of_jobs else (0, None)
    return (row.id, row.created_at, row.event, row.actor, row.reason, *jobs, operation, row.scope)


def _by(rows: Iterable[Row[Any]], name: str) -> dict[Any, list[Row[Any]]]:
    found: dict[Any, list[Row[Any]]] = defaultdict(list)
    for row in rows:
        found[getattr(row, name)].append(row)
    return found
