"""The audit trail: lines are one act that one person wrote within a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.queries import trail
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made

_NAMES = (
    "id", "first_id", "xid", "at", "event", "actor", "reason", "jobs", "job_id", "kind", "kinds",
    "scope", "via", "request_id", "told",
)  # fmt: skip

_LINES = """
SELECT id, job_id, kind, scope, event, from_status, actor, substr(reason, 1, 1000) AS reason, data,
  created_at
FROM job_events WHERE id < :id ORDER BY id DESC LIMIT :scan
"""

_SWITCHED = """
SELECT id, job_id, kind, scope, event, from_status, actor, substr(reason, 1, 1000) AS reason, data,
  created_at
FROM job_events
WHERE job_id IS NULL AND event IN (SELECT value FROM json_each(:control))
ORDER BY id DESC LIMIT :scan
"""


@instead_of(trail._ALONG)
def _along(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    lines = fetch(connection, _LINES, id=given["id"], scan=given["scan"])
    if not lines:
        return ()
    found: dict[Any, list[Row[Any]]] = {}
    for line in lines:
        if _is_wanted(line, given) and _is_act(line, given):
            found.setdefault(_together(line), []).append(line)
    acts = [_told(alike) for alike in found.values()][: given["limit"]]
    end = ("0", lines[-1].id, lines[-1].created_at, len(lines))
    rows = [(*act, *end) for act in acts] or [(*[None] * len(_NAMES), *end)]
    return made((*_NAMES, "end_xid", "end_id", "end_at", "looked"), rows)


@instead_of(trail._BY_EVENT)
def _by_event(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    lines = fetch(connection, _SWITCHED, control=given["control"], scan=given["scan"])
    below = [line for line in lines if line.id < given["id"] and _is_wanted(line, given)]
    rows = [(*_told([line]), len(lines)) for line in below[: given["limit"]]]
    return made((*_NAMES, "looked"), rows)


def _is_wanted(line: Row[Any], given: Parameters) -> bool:
    is_then: bool = given["since"] <= line.created_at < given["until"]
    return is_then and given["actor"] in (None, line.actor) and _is_of_plans(line, given)


def _is_of_plans(line: Row[Any], given: Parameters) -> bool:
    plans, data = given["plans"], _data(line)
    if plans is None or line.event != "op_planned":
        return True
    return data.get("verb") in plans or ("canary" in plans and "canary" in data)


def _is_act(line: Row[Any], given: Parameters) -> bool:
    if line.job_id is None:
        return line.event in given["control"]
    data = _data(line)
    if line.event not in given["moves"] or data.get("operation"):
        return False
    surface = line.actor.partition(":")[0]
    if surface != "token":
        return surface in ("user", "cli")
    is_end = line.from_status == "running" and line.event != "cancel_requested"
    return not is_end or bool(data.get("released_token"))


def _together(line: Row[Any]) -> Any:
    if line.job_id is None:
        return line.id
    return line.event, line.actor, line.reason, int(line.created_at.timestamp())


def _told(lines: list[Row[Any]]) -> tuple[Any, ...]:
    newest, of_jobs, data = lines[0], lines[0].job_id is not None, _data(lines[0])
    kinds = {line.kind for line in lines} if of_jobs else set()
    jobs = (len(lines), min(line.job_id for line in lines)) if of_jobs else (0, None)
    return (
        newest.id,
        min(line.id for line in lines),
        "0",
        newest.created_at,
        newest.event,
        newest.actor,
        newest.reason,
        *jobs,
        min(kinds, default=None),
        len(kinds),
        newest.scope,
        data.get("via"),
        data.get("request_id"),
        None if of_jobs else newest.data,
    )


def _data(line: Row[Any]) -> dict[str, Any]:
    return line.data if isinstance(line.data, dict) else {}
