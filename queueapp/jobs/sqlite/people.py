"""The verbs of people and producers: read the rows, decide about each, write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row

from queueapp.jobs.seen import Seen
from queueapp.jobs.sqlite.events import event_of, log
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made
from queueapp.jobs.sqlite.values import clock, clock_text
from queueapp.jobs.status import Verb, sources
from queueapp.jobs.transitions import people_statements as statements


@dataclass(frozen=True)
class _Move:
    """What becomes of one row. ``reason`` stands when the person gives none."""

    event: str
    sets: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None


# (the row as it was, the parameters, its place among those that move, how many those are); None: it
# stays as it is
_Decide: TypeAlias = Callable[[Row[Any], Parameters, int, int], _Move | None]


def _verb(statement: str, verb: Verb, guard: str = "true") -> Callable[[_Decide], _Decide]:
    """Have ``decide`` do the work of ``statement``."""
    statuses = ", ".join(f"'{status}'" for status in sources(verb))
    target = f"""
SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ({statuses})
  AND ({guard}) ORDER BY id"""

    def register(decide: _Decide) -> _Decide:
        @instead_of(statement, writes=True)
        def _replacement(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
            found = fetch(connection, target, **given)
            rows = [row for row in found if is_as_seen(row, given)]
            # What stays as it is has no place among the others.
            able = [row for row in rows if decide(row, given, 0, 1) is not None]
            decided = [(row, decide(row, given, nth, len(able))) for nth, row in enumerate(able)]
            moves = [(row, move) for row, move in decided if move is not None]
            for row, move in moves:
                _write(connection, row.id, move.sets)
            log(connection, [_event(*each, given) for each in moves])
            names = ("id", "event", "from_status", "to_status")
            return made(
                names,
                [
                    (row.id, move.event, row.status, move.sets.get("status", row.status))
                    for row, move in moves
                ],
            )

        return decide

    return register


def is_as_seen(row: Row[Any], given: Parameters) -> bool:
    """Whether the row stands as it was seen, if anybody has seen it."""
    if given["seen_statuses"] is None:
        return True
    seen = (_mine(row, given, f"seen_{name}") for name in ("statuses", "at", "priorities"))
    return tuple(seen) == astuple(Seen.of(row))


def _write(connection: Connection, job_id: int, sets: dict[str, Any]) -> None:
    columns = ", ".join(f"{name} = :{name}" for name in sets)
    fetch(connection, f"UPDATE jobs SET {columns} WHERE id = :id", id=job_id, **sets)


def _event(row: Row[Any], move: _Move, given: Parameters) -> dict[str, Any]:
    return event_of(
        row,
        move.event,
        actor=given["actor"],
        from_status=row.status,
        to_status=move.sets.get("status", row.status),
        attempt=row.attempts,
        reason=move.reason if given["reason"] is None else given["reason"],
        data={**told(given), **move.data},
    )


def told(given: Parameters) -> dict[str, Any]:
    """Which surface, which operation and which request a line of the ledger tells of."""
    operation = {} if given["operation"] is None else {"operation": given["operation"]}
    return {"via": given["via"], **operation, **json.loads(given["request"])}


@_verb(statements.CANCEL, Verb.CANCEL, "cancel_requested_at IS NULL")
def _cancel(row: Row[Any], _given: Parameters, _nth: int, _count: int) -> _Move:
    now = clock_text()
    if row.status == "running":
        return _Move("cancel_requested", {"cancel_requested_at": now}, {"cancel_requested_at": now})
    was = {"was": {"held_for": row.held_for}} if row.status == "held" else {}
    return _Move("cancelled", {"status": "cancelled", "finished_at": now, "held_for": None}, was)


@_verb(statements.REQUEUE, Verb.REQUEUE)
def _requeue(row: Row[Any], _given: Parameters, _nth: int, _count: int) -> _Move:
    folded = {
        "attempts": 0, "handbacks": 0, "available_at": clock_text(), "cancel_requested_at": None,
    }  # fmt: skip
    cleared = dict.fromkeys(("started_at", "finished_at", "progress", "progress_note", "result"))
    was = {name: getattr(row, name) for name in folded}
    return _Move("requeued", {"status": "queued", **folded, **cleared}, {**folded, "was": was})


@_verb(statements.HOLD, Verb.HOLD)
def _hold(_row: Row[Any], given: Parameters, _nth: int, _count: int) -> _Move:
    held_for = {"held_for": given["held_for"]}
    return _Move("held", {"status": "held", **held_for}, held_for)


@_verb(statements.UNHOLD, Verb.UNHOLD, ":held_for IS NULL OR held_for = :held_for")
def _unhold(row: Row[Any], given: Parameters, nth: int, count: int) -> _Move:
    due = row.available_at
    if given["spread_s"] > 0:
        due = max(due, clock() + timedelta(seconds=given["spread_s"] * nth / count))
    sets = {"status": "queued", "held_for": None, "available_at": due}
    was = {"available_at": row.available_at}
    return _Move("unheld", sets, {"available_at": due, "was": was})


@_verb(statements.RESCHEDULE, Verb.RESCHEDULE)
def _reschedule(row: Row[Any], given: Parameters, nth: int, count: int) -> _Move | None:
    if given["only_if_changed"] and not _changes(row, given):
        return None
    due, delay_s = given["available_at"], given["delay_s"]
    is_placed = due is not None or delay_s is not None
    if due is not None:
        due = max(due, clock())
    else:
        due = row.available_at if delay_s is None else clock() + timedelta(seconds=delay_s)
    if given["spread_s"] > 0:
        own = timedelta(seconds=given["spread_s"] * nth / count)
        due = due + own if is_placed else max(due, clock() + own)
    place = {
        "priority": row.priority if given["priority"] is None else given["priority"],
        "available_at": due,
    }
    was = {"priority": row.priority, "available_at": row.available_at}
    return _Move("rescheduled", place, {**place, "was": was})


def _changes(row: Row[Any], given: Parameters) -> bool:
    due: datetime = row.available_at
    asked: datetime | None = given["available_at"]
    delay_s: float | None = given["delay_s"]
    if given["priority"] not in (None, row.priority):
        return True
    if given["spread_s"] > 0:
        is_placed = asked is not None or delay_s is not None
        return is_placed or due < clock() + timedelta(seconds=given["spread_s"])
    if asked is not None:
        now = clock()
        return due > now if asked <= now else asked != due
    if delay_s is None:
        return False
    ahead_s = (due - clock()).total_seconds()
    return abs(ahead_s - delay_s) > statements.SAME_DELAY_S if delay_s else ahead_s > 0


@_verb(
    statements.RUN_NOW, Verb.RESCHEDULE, "status = 'queued' AND available_at > clock_timestamp()"
)
def _run_now(row: Row[Any], _given: Parameters, _nth: int, _count: int) -> _Move:
    place = {"priority": row.priority, "available_at": clock_text()}
    was = {"priority": row.priority, "available_at": row.available_at}
    return _Move("rescheduled", place, {**place, "was": was})


def _mine(row: Row[Any], given: Parameters, name: str) -> Any:
    """What a list of values has for a job, by its place among the ids."""
    return given[name][given["ids"].index(row.id)]


@_verb(statements.RESTORE, Verb.RESTORE, "cancel_requested_at IS NULL AND attempts < max_attempts")
def _restore(row: Row[Any], given: Parameters, _nth: int, _count: int) -> _Move:
    held_for = _mine(row, given, "held_for")
    place = {"status": _mine(row, given, "statuses"), "held_for": held_for}
    told = {"available_at": row.available_at} | ({"held_for": held_for} if held_for else {})
    return _Move("restored", {**place, "finished_at": None}, told)


@_verb(statements.PUT_BACK, Verb.RESCHEDULE)
def _put_back(row: Row[Any], given: Parameters, _nth: int, _count: int) -> _Move:
    place = {
        "priority": _mine(row, given, "priorities"),
        "available_at": datetime.fromisoformat(_mine(row, given, "available_at")),
    }
    was = {"priority": row.priority, "available_at": row.available_at}
    return _Move("rescheduled", place, {**place, "was": was})


@_verb(statements.RELEASE, Verb.RELEASE, "lease_token = :token")
def _release(row: Row[Any], given: Parameters, _nth: int, _count: int) -> _Move:
    status = "failed" if row.attempts >= row.max_attempts else "queued"
    status = "cancelled" if row.cancel_requested_at is not None else status
    sets: dict[str, Any] = {
        "status": status,
        **dict.fromkeys(("locked_by", "lease_token", "lease_expires_at", "claimed_at")),
        "error_class": given["error_class"],
        "error_message": given["error_message"],
        "error_fingerprint": given["fingerprint"],
    }
    if status == "queued":
        sets |= dict.fromkeys(("finished_at", "started_at", "progress", "progress_note"))
    else:
        sets |= {"finished_at": clock_text()}
    data = {
        "attempts": row.attempts,
        "available_at": row.available_at,
        "error_fingerprint": given["fingerprint"],
        "released_token": row.lease_token,
    }
    used_up = "released_on_last_attempt"
    if status == "failed":
        return _Move("failed", sets, {**data, "cause": used_up}, reason=used_up)
    return _Move("released" if status == "queued" else status, sets, data)


@_verb(statements.RELEASE_CLAIMS, Verb.RELEASE, "locked_by = :holder")
def _release_claim(row: Row[Any], given: Parameters, nth: int, count: int) -> _Move | None:
    claims = dict(zip(given["ids"], given["claimed"], strict=True))
    return _release(row, given, nth, count) if claims[row.id] == row.claimed_at else None
