"""Enqueue: one job or five thousand, in the order of the request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs import room
from queueapp.jobs.sqlite.events import event_of, log
from queueapp.jobs.sqlite.replacements import Parameters, execute_many, fetch, instead_of, made
from queueapp.jobs.sqlite.values import clock, json_text
from queueapp.jobs.transitions import enqueue_statements as sql

_LAST_ID = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'jobs'), 0) AS id"

_KEYED = """
SELECT id, request_hash FROM jobs WHERE producer = :producer AND idempotency_key = :key
"""

_INSERT = """
INSERT INTO jobs (id, kind, payload, status, priority, available_at, created_at, max_attempts,
  timeout_s, producer, idempotency_key, request_hash)
VALUES (:id, :kind, :payload, 'queued', :priority, :available_at, :created_at, :max_attempts,
  :timeout_s, :producer, :key, :request_hash)
"""

_FULL = "SELECT 'full' AS outcome, NULL AS id, NULL AS request_hash"

# Whoever writes is alone behind the gate.
_DEPTH = """
SELECT count(*) AS depth, coalesce(sum(available_at <= statement_timestamp()), 0) AS due
FROM (
  SELECT available_at FROM jobs WHERE status = 'queued'
  ORDER BY priority DESC, available_at, created_at, id LIMIT :bound)
"""

_WHOLE = "SELECT :outcome AS outcome, * FROM jobs WHERE id = :id"

# What a job need not say.
_UNSAID = dict.fromkeys(("delay_s", "available_at", "timeout_s", "key", "request_hash"))


@instead_of(sql.MANY, sql.KEYED, writes=True)
def _many(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    items = [{**_UNSAID, **item} for item in json.loads(given["jobs"])]
    answers = _enqueue(connection, items, given)
    numbered = [(pos, *answer) for pos, answer in enumerate(answers, 1)]
    return made(("pos", "id", "outcome", "request_hash"), numbered)


@instead_of(sql.ONE, sql.ONE_WHOLE, sql.FRESH, sql.FRESH_WHOLE, writes=True)
def _one(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    item = {**given, "payload": json.loads(given["payload"])}
    ((job_id, outcome, _),) = _enqueue(connection, [item], given)
    return fetch(connection, _WHOLE, outcome=outcome, id=job_id)


@instead_of(sql.ONE_BELOW, sql.ONE_WHOLE_BELOW, sql.FRESH_BELOW, sql.FRESH_WHOLE_BELOW, writes=True)
def _one_below(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    if _last_id(connection) >= given["ceiling"]:
        known = _known(connection, {}, given["producer"], given["key"])
        if known is None:
            return fetch(connection, _FULL)
    return _one(connection, given)


@instead_of(sql.CLONE, writes=True)
def _clone(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    item = {**_UNSAID, **given, "payload": json.loads(given["payload"])}
    ((job_id, _, _),) = _enqueue(connection, [item], given)
    original = SimpleNamespace(id=given["original"], kind=given["kind"])
    how = {name: given[name] for name in ("actor", "reason")}
    told = {"job": job_id, "via": given["via"], **json.loads(given["request"])}
    log(connection, [event_of(original, "cloned", attempt=given["attempts"], data=told, **how)])
    return fetch(connection, _WHOLE, outcome="new", id=job_id)


@instead_of(sql.CLONE_BELOW, writes=True)
def _clone_below(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    if _last_id(connection) >= given["ceiling"]:
        return fetch(connection, _FULL)
    return _clone(connection, given)


@instead_of(room._ENTER, writes=True)
def _enter(connection: Connection, _given: Parameters) -> Sequence[Row[Any]]:
    return made(("last_id",), [(_last_id(connection),)])


@instead_of(room._MEASURE)
def _measure(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    counted = fetch(connection, _DEPTH, **given)[0]
    names = ("last_id", "depth", "due", "now")
    return made(names, [(_last_id(connection), counted.depth, counted.due, clock())])


def _last_id(connection: Connection) -> int:
    last: int = fetch(connection, _LAST_ID)[0].id
    return last


def _enqueue(
    connection: Connection, items: Sequence[dict[str, Any]], given: Parameters
) -> list[tuple[int, str, str | None]]:
    now, who = clock(), given["producer"]
    last = _last_id(connection)
    new: list[dict[str, Any]] = []
    keys: dict[str, Any] = {}
    answers = []
    for item in items:
        known = _known(connection, keys, who, item["key"])
        if known is None:
            last += 1
            new.append(_row(item, last, who, now))
            known = SimpleNamespace(id=last, request_hash=item["request_hash"])
            keys[item["key"]] = known
            outcome = "new"
        else:
            outcome = "replay" if known.request_hash == item["request_hash"] else "conflict"
        answers.append((known.id, outcome, known.request_hash))
    execute_many(connection, _INSERT, new)
    log(connection, [_event(row, given) for row in new])
    return answers


def _known(connection: Connection, keys: dict[str, Any], who: str, key: str | None) -> Any:
    """The job of ``who`` that has the key, here or in the table; None without one."""
    if key is None:
        return None
    if key not in keys:
        rows = fetch(connection, _KEYED, producer=who, key=key)
        keys[key] = rows[0] if rows else None
    return keys[key]


def _row(item: dict[str, Any], job_id: int, who: str, now: datetime) -> dict[str, Any]:
    due = item["available_at"]
    if due is None:
        due = now + timedelta(seconds=item["delay_s"] or 0)
    elif isinstance(due, str):
        due = datetime.fromisoformat(due)
    payload = json_text(item["payload"]) or "null"
    return {
        **item, "id": job_id, "payload": payload, "available_at": due, "created_at": now,
        "producer": who,
    }  # fmt: skip


def _event(row: dict[str, Any], given: Parameters) -> dict[str, Any]:
    return event_of(
        SimpleNamespace(**row),
        "enqueued",
        actor=given["actor"],
        to_status="queued",
        attempt=0,
        reason=given.get("reason"),
        data={
            "priority": row["priority"],
            "available_at": row["available_at"],
            "via": given["via"],
            **({"cloned_from": given["original"]} if "original" in given else {}),
        },
    )
