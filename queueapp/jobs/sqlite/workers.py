"""The worker's verbs: settle, claim, explain, renew, begin, progress, expire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, Row

from queueapp.jobs.backoff import counts
from queueapp.jobs.claim import CLAIM_COLUMNS
from queueapp.jobs.sqlite.events import event_of, log
from queueapp.jobs.sqlite.replacements import (
    Parameters,
    execute_many,
    fetch,
    instead_of,
    made,
)
from queueapp.jobs.sqlite.values import after, clock, clock_text, instant_text, json_text
from queueapp.jobs.transitions.settle import _EXPLAIN, _SETTLE, exchange_statement

_HELD = "SELECT * FROM jobs WHERE id = :id AND lease_token = :token"

_WRITE = """
UPDATE jobs SET status = :status,
  locked_by = NULL, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL,
  attempts = :attempts, handbacks = :handbacks, available_at = :available_at,
  started_at = :started_at, finished_at = :finished_at, progress = :progress,
  progress_note = :progress_note, result = :result, error_class = :error_class,
  error_message = :error_message, error_fingerprint = :error_fingerprint
WHERE id = :id AND lease_token = :token
"""

_EVENTS = {"retry": "retry_scheduled", "release": "released", "defer": "deferred"}
_NOTHING_MORE = dict.fromkeys(("delay_s", "result", "reason"))
_ERRORS = ("error_class", "error_message", "error_fingerprint")


def _settled(connection: Connection, document: str, me: str) -> list[tuple[str, str, int]]:
    """Settle what its token still holds: (status, token, id) of each."""
    done = []
    for said in sorted(json.loads(document), key=lambda each: each["id"]):
        outcome = {**_NOTHING_MORE, **said}
        rows = fetch(connection, _HELD, id=outcome["id"], token=outcome["token"])
        if rows:
            row = rows[0]
            changed = _changes(row, outcome)
            fetch(connection, _WRITE, id=row.id, token=outcome["token"], **changed)
            log(connection, [_settled_event(row, outcome, changed, me)])
            done.append((changed["status"], row.lease_token, row.id))
    return done


def _status_after(row: Row[Any], verb: str) -> str:
    """A cancel request wins over every end but success."""
    if verb == "succeed":
        return "succeeded"
    if verb == "cancel" or row.cancel_requested_at is not None:
        return "cancelled"
    return "failed" if verb == "fail" else "queued"


def _changes(row: Row[Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    verb, status = outcome["verb"], _status_after(row, outcome["verb"])
    given_back = int(status == "queued" and verb in ("release", "defer"))
    delayed = status == "queued" and outcome["delay_s"] is not None
    changed = {
        "status": status,
        "attempts": row.attempts - given_back,
        "handbacks": row.handbacks + (given_back if counts(outcome["reason"]) else 0),
        "available_at": after(outcome["delay_s"]) if delayed else instant_text(row.available_at),
        "result": json_text(outcome["result"]),
        **_errors(row, outcome),
    }
    ended: dict[str, Any] = dict.fromkeys(
        ("started_at", "finished_at", "progress", "progress_note")
    )
    if status != "queued":
        ran = outcome["ran_s"]
        ended = {
            "started_at": row.started_at or (None if ran is None else after(-ran)),
            "finished_at": clock(),
            "progress": row.progress,
            "progress_note": row.progress_note,
        }
    return changed | ended


def _errors(row: Row[Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    if outcome["verb"] in ("release", "defer"):
        return {name: getattr(row, name) for name in _ERRORS}
    keys = ("error_class", "error_message", "fingerprint")
    return {name: outcome.get(key) for name, key in zip(_ERRORS, keys, strict=True)}


def _settled_event(
    row: Row[Any], outcome: Mapping[str, Any], changed: dict[str, Any], me: str
) -> dict[str, Any]:
    status, data, reason = changed["status"], outcome["data"], outcome["reason"]
    if status == "succeeded":
        reason = "finished_before_cancel" if row.cancel_requested_at is not None else reason
    else:
        folded = ("attempts", "handbacks", "available_at", "error_fingerprint")
        data = (data or {}) | {name: changed[name] for name in folded}
    return event_of(
        row,
        status if status != "queued" else _EVENTS[outcome["verb"]],
        actor=me,
        from_status="running",
        to_status=status,
        attempt=row.attempts,
        lease_token=outcome["token"],
        reason=reason,
        data=data,
    )


@instead_of(_SETTLE, writes=True)
def _settle(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    done = _settled(connection, given["outcomes"], given["me"])
    return made(("status", "token"), [(status, token) for status, token, _ in done])


# The claim

_NEXT_PRIORITY = """
SELECT max(priority) AS priority FROM jobs
WHERE status = 'queued' AND priority < :below
"""

_DUE = """
SELECT * FROM jobs
WHERE status = 'queued' AND priority = :priority AND available_at <= :now
  AND (:any_kind OR kind IN (SELECT value FROM json_each(:only)))
  AND kind NOT IN (SELECT value FROM json_each(:skip))
ORDER BY available_at, created_at, id LIMIT :limit
"""

_CLAIM = """
UPDATE jobs SET status = 'running', attempts = :attempts, locked_by = :me, lease_token = :token,
  claimed_at = :claimed_at, lease_expires_at = :expires_at, started_at = :started_at,
  progress = NULL, progress_note = NULL
WHERE id = :id
"""

_CLAIMED = tuple(name.strip() for name in CLAIM_COLUMNS.split(","))


def _due(connection: Connection, given: Parameters, any_kind: bool) -> Iterator[Row[Any]]:
    """The next in line, priority by priority: future ones of a higher one are not walked."""
    below, left, now = 2**31, given["n"], clock_text()
    kinds = {"any_kind": any_kind, "only": given["only"], "skip": given["skip"]}
    while left > 0:
        below = fetch(connection, _NEXT_PRIORITY, below=below)[0].priority
        if below is None:
            return
        rows = fetch(connection, _DUE, priority=below, now=now, limit=left, **kinds)
        left -= len(rows)
        yield from rows


def _claim(
    connection: Connection, given: Parameters, due: Sequence[Row[Any]]
) -> list[tuple[Any, ...]]:
    """Claim what is ``due``; the values of ``CLAIM_COLUMNS`` of each, in claim order."""
    claims, updates, events = [], [], []
    for nth, row in enumerate(due, 1):
        now, token, started = clock(), uuid4(), nth <= given["slots"]
        limit = (given["job_timeout"] if row.timeout_s is None else row.timeout_s) or None
        lease = min(given["lease"], limit) if started and limit else given["lease"]
        updates.append({
            "id": row.id, "attempts": row.attempts + 1, "me": given["me"], "token": token,
            "claimed_at": now, "expires_at": after(lease), "started_at": now if started else None,
        })  # fmt: skip
        waited = round((now - max(row.available_at, row.created_at)).total_seconds() * 1000)
        events.append(
            event_of(
                row, "claimed", actor=given["me"], from_status="queued", to_status="running",
                attempt=row.attempts + 1, lease_token=str(token), data={"wait_ms": waited},
            )
        )  # fmt: skip
        fields = {**row._mapping, "attempts": row.attempts + 1, "lease_token": token}
        fields |= {"claimed_at": now, "started": started, "payload": json_text(row.payload)}
        claims.append(tuple(fields[name] for name in _CLAIMED))
    execute_many(connection, _CLAIM, updates)
    log(connection, events)
    return claims


def _exchange(connection: Connection, given: Parameters, any_kind: bool) -> Sequence[Row[Any]]:
    # Looked up before: what is given back here is not claimed again in the same breath.
    due = list(_due(connection, given, any_kind))
    done = _settled(connection, given["outcomes"], given["me"])
    claims = _claim(connection, given, due)
    token, blank = _CLAIMED.index("lease_token"), [None] * len(_CLAIMED)
    settled = []
    for status, own, job_id in done:
        values: list[Any] = [job_id, *blank[1:]]
        values[token] = own
        settled.append((status, *values))
    return made(("settled", *_CLAIMED), [*((None, *claim) for claim in claims), *settled])


@instead_of(
    exchange_statement(only=False, skip=False),
    exchange_statement(only=False, skip=True),
    writes=True,
)
def _exchange_any(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    return _exchange(connection, given, any_kind=True)


@instead_of(
    exchange_statement(only=True, skip=False),
    exchange_statement(only=True, skip=True),
    writes=True,
)
def _exchange_only(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    return _exchange(connection, given, any_kind=False)


# Why an outcome was not accepted

_HOLDS = "SELECT 1 FROM jobs WHERE id = :id AND lease_token = :token"
_ENDED = """
SELECT to_status FROM job_events
WHERE job_id = :id AND lease_token = :token AND created_at >= :claimed_at
  AND from_status = 'running' AND to_status <> 'running' AND actor = :me LIMIT 1
"""
_KIND = """
SELECT :id AS id, coalesce((SELECT kind FROM jobs WHERE id = :id),
  (SELECT kind FROM job_events WHERE job_id = :id ORDER BY id DESC LIMIT 1)) AS kind
"""


@instead_of(_EXPLAIN, writes=True)
def _explain(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    answers = []
    for outcome in json.loads(given["outcomes"]):
        own = {"id": outcome["id"], "token": outcome["token"]}
        since = {"claimed_at": outcome["claimed_at"], "me": given["me"]}
        if fetch(connection, _HOLDS, **own):
            found = "busy"
        elif ended := fetch(connection, _ENDED, **own, **since):
            found = ended[0].to_status
        else:
            found = "lost"
            [job] = fetch(connection, _KIND, id=outcome["id"])
            late = {"lease_token": outcome["token"], "reason": outcome["verb"]}
            if job.kind is not None:
                line = event_of(job, "stale_write_rejected", actor=given["me"], **late)
                log(connection, [line])
        answers.append((outcome["token"], found))
    return made(("token", "answer"), [(UUID(token), found) for token, found in answers])
