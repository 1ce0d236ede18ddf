"""What a worker does with the leases it holds, and the sweeper with those that ran out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.queries import standings
from queueapp.jobs.sqlite.events import event_of, log
from queueapp.jobs.sqlite.replacements import Parameters, execute_many, fetch, instead_of, made
from queueapp.jobs.sqlite.values import after, clock, clock_text
from queueapp.jobs.transitions import bereavement, holding, sweeper

_HELD = """
SELECT lease_expires_at, started_at, timeout_s, cancel_requested_at FROM jobs
WHERE id = :id AND lease_token = :token
"""
_RENEW = "UPDATE jobs SET lease_expires_at = :until WHERE id = :id AND lease_token = :token"


def _ends_at(row: Row[Any], job_timeout: float) -> datetime | None:
    """When the attempt is over, None for never."""
    limit = (job_timeout if row.timeout_s is None else row.timeout_s) or None
    if limit is None or row.started_at is None:
        return None
    ends: datetime = row.started_at + timedelta(seconds=limit)
    return ends


@instead_of(holding._RENEW, writes=True)
def _renew(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    answers = [
        (token, _renewed(connection, job_id, token, given))
        for job_id, token in zip(given["ids"], given["tokens"], strict=True)
    ]
    return made(("token", "answer"), answers)


def _renewed(connection: Connection, job_id: int, token: Any, given: Parameters) -> str:
    rows = fetch(connection, _HELD, id=job_id, token=token)
    if not rows:
        return "lost"
    ends = _ends_at(rows[0], given["job_timeout"])
    if ends is not None and ends <= clock():
        return "timeout"
    until = clock() + timedelta(seconds=given["lease"])
    until = until if ends is None else min(until, ends)
    fetch(connection, _RENEW, id=job_id, token=token, until=until)
    return "cancel" if rows[0].cancel_requested_at is not None else "renewed"


_BEGIN = """
UPDATE jobs SET started_at = coalesce(started_at, :at)
WHERE id = :id AND lease_token = :token
"""


@instead_of(holding._BEGIN, writes=True)
def _begin(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    starts = zip(given["ids"], given["tokens"], given["agos"], strict=True)
    execute_many(
        connection,
        _BEGIN,
        [{"id": job, "token": token, "at": after(-ago)} for job, token, ago in starts],
    )
    return made(("token",), [(token,) for token in given["tokens"]])


_PROGRESS = """
UPDATE jobs SET progress = :percent, progress_note = :note WHERE id = :id AND lease_token = :token
RETURNING lease_token AS "token [uuid_text]"
"""


@instead_of(holding._PROGRESS, writes=True)
def _progress(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    reports = zip(given["ids"], given["tokens"], given["percents"], given["notes"], strict=True)
    written = [
        fetch(connection, _PROGRESS, id=job, token=token, percent=percent, note=note)
        for job, token, percent, note in reports
    ]
    return [row for rows in written for row in rows]


_STANDINGS = """
SELECT attempts AS attempt, max_attempts, handbacks, claimed_at, started_at FROM jobs
WHERE id = :id AND lease_token = :token
"""


@instead_of(standings._STANDINGS)
def _standings(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    now, found = clock(), []
    for job_id, token in zip(given["ids"], given["tokens"], strict=True):
        rows = fetch(connection, _STANDINGS, id=job_id, token=token)
        held: tuple[Any, ...] = (False, 0, 0, 0, now - timedelta(days=1), None)
        if rows:
            row = rows[0]
            ran = None if row.started_at is None else (now - row.started_at).total_seconds()
            held = (True, row.attempt, row.max_attempts, row.handbacks, row.claimed_at, ran)
        found.append((job_id, token, *held))
    return made(standings.COLUMNS, found)


_OVERDUE = """
SELECT * FROM jobs
WHERE status = 'running' AND claimed_at >= coalesce(:low, '-infinity') AND lease_expires_at < :now
  AND lease_token NOT IN (SELECT value FROM json_each(:spare))
ORDER BY claimed_at, id LIMIT :limit
"""


@instead_of(sweeper._OVERDUE, writes=True)
def _overdue(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    bounds = {name: given[name] for name in ("low", "spare", "limit")}
    found = fetch(connection, _OVERDUE, now=clock_text(), **bounds)
    names, rows, events = (), [], []
    for row in found:
        ends = _ends_at(row, given["job_timeout"])
        timed_out = ends is not None and ends <= clock()
        names = (*row._mapping, "timed_out")
        rows.append((*row, timed_out))
        if not timed_out:
            events.append(_expired_event(row, given["me"]))
    log(connection, sorted(events, key=lambda event: event["job_id"]))
    return made(names, rows) if rows else ()


def _expired_event(row: Row[Any], me: str, **told: Any) -> dict[str, Any]:
    return event_of(
        row,
        "lease_expired",
        actor=me,
        from_status="running",
        to_status="running",
        attempt=row.attempts,
        lease_token=row.lease_token,
        data={"holder": row.locked_by, "lease_expires_at": row.lease_expires_at, **told},
    )


@instead_of(sweeper._LOCKED)
def _locked(_connection: Connection, _given: Parameters) -> Sequence[Row[Any]]:
    """Nobody locks single rows here."""
    return ()


# What a dead process held

_HELD_BY = """
SELECT * FROM jobs WHERE status = 'running' AND locked_by = :holder ORDER BY claimed_at, id
"""

_KILLS = """
SELECT count(*) AS n FROM job_events
WHERE job_id = :id AND event = 'lease_expired' AND data ->> 'crashed'
  AND id > coalesce((SELECT max(id) FROM job_events WHERE job_id = :id AND event = 'requeued'), 0)
"""


@instead_of(bereavement._TAKE_BACK, writes=True)
def _take_back(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    rows = fetch(connection, _HELD_BY, holder=given["holder"])
    if not rows:
        return ()
    suspect = given["crashed"] and len(rows) == 1
    kills = [1 + fetch(connection, _KILLS, id=row.id)[0].n if suspect else 0 for row in rows]
    told = {"died": given["died"], "crashed": given["crashed"], "suspects": len(rows)}
    events = [_expired_event(row, given["me"], **told) for row in rows]
    log(connection, sorted(events, key=lambda event: event["job_id"]))
    values = [(*row, count) for row, count in zip(rows, kills, strict=True)]
    return made((*rows[0]._mapping, "kills"), values)
