"""What housekeeping asks: holds, statistics, the age of the ledger. There are no partitions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs import control, database, holds, minute_stats, partitions
from queueapp.jobs.instants import read_instant
from queueapp.jobs.sqlite.events import control_event, log
from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, made, reworded
from queueapp.jobs.sqlite.values import clock


@instead_of(control._RECORD, writes=True)
def _record(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    line = control_event(given["event"], actor=given["actor"], scope=given["scope"])
    log(connection, [{**line, "reason": given["reason"], "data": given["data"]}])
    return fetch(connection, "SELECT last_insert_rowid() AS id")


@instead_of(database._NOTIFY)
def _notify(_connection: Connection, _given: Parameters) -> Sequence[Row[Any]]:
    """Workers poll."""
    return ()


# Holds

_NEXT_QUEUED = """
SELECT id, kind, priority, available_at, created_at FROM jobs
WHERE status = 'queued' AND priority <= :priority AND (priority < :priority
  OR (available_at, created_at, id) > (:available_at, :created_at, :id))
ORDER BY priority DESC, available_at, created_at, id LIMIT :scan
"""


@instead_of(holds._NEXT_QUEUED)
def _next_queued(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    scanned = fetch(connection, _NEXT_QUEUED, **given)
    if not scanned:
        return ()
    ids = [row.id for row in scanned if row.kind in given["kinds"]]
    last = scanned[-1]
    names = ("ids", "scanned", "priority", "available_at", "created_at", "id")
    return made(names, [(ids, len(scanned), *(getattr(last, name) for name in names[2:]))])


reworded(
    holds.HELD_KINDS,
    "SELECT DISTINCT kind FROM jobs WHERE status = 'held' AND held_for = 'kind' ORDER BY kind",
)


# Statistics: whoever writes is alone, so the order of ids is the order of commits

reworded(
    minute_stats._LAST,
    """
SELECT data ->> 'xid' AS xid, data ->> 'id' IS NOT NULL AS is_here,
  data ->> 'id' AS id, NULL AS open,
  data ->> 'full' AS full, data -> 'totals' AS "totals [json_text]", data ->> 'due_to' AS due_to,
  created_at, epoch(now()) - epoch(created_at) AS age_s
FROM job_events
WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue' AND data ->> 'drill' IS NULL
ORDER BY job_events.id DESC LIMIT 1
""",
)
reworded(
    minute_stats._NOW,
    "SELECT '0' AS xid, coalesce(max(id), 0) AS id, NULL AS open FROM job_events",
)

_NEWS = """
SELECT id, kind, event, attempt, data, created_at FROM job_events
WHERE id > :id ORDER BY id LIMIT :limit
"""
_AHEAD = timedelta(seconds=minute_stats.AHEAD_S)
_NEXT_DUE = f"""
SELECT kind, count(*) AS n FROM (
  SELECT kind, available_at, created_at FROM jobs
  WHERE status = 'queued' AND available_at > :since AND available_at <= :upto
    AND attempts = 0 AND handbacks = 0
    AND available_at > shifted(created_at, {minute_stats.AHEAD_S})
  LIMIT {minute_stats.MOST_DUE}) GROUP BY 1
"""


@instead_of(minute_stats._READ)
def _news(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    rows = fetch(connection, _NEWS, **given)
    kinds: dict[str, dict[str, Counter[str]]] = defaultdict(
        lambda: {"events": Counter(), "wait": Counter(), "run": Counter()}
    )
    retries: Counter[str] = Counter()
    later: Counter[str] = Counter()
    for row in rows:
        if row.kind is not None:
            kinds[row.kind]["events"][row.event] += 1
            retries[row.kind] += row.event == "claimed" and (row.attempt or 0) > 1
            later[row.kind] += row.event == "enqueued" and _is_ahead(row)
            name = "wait" if row.event == "claimed" else "run"
            ms = (row.data or {}).get(f"{name}_ms")
            if ms is not None:
                kinds[row.kind][name][_bucket(ms)] += 1
    found = {
        "xid": "0" if rows else None,
        "id": rows[-1].id if rows else None,
        "read": len(rows),
        "open": None,
        "since": min((row.created_at for row in rows), default=None),
        "now_s": int(clock().timestamp()),
        "kinds": {
            kind: {**parts, "retries": retries[kind], "later": later[kind]}
            for kind, parts in kinds.items()
        }
        or None,
    }
    return made(tuple(found), [tuple(found.values())])


def _is_ahead(row: Row[Any]) -> bool:
    due_at = (row.data or {}).get("available_at")
    return due_at is not None and read_instant(due_at) > row.created_at + _AHEAD


@instead_of(minute_stats._NEXT_DUE)
def _next_due(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    now = clock()
    since = max(now, read_instant(given["due_to"])) if given["due_to"] else now
    rows = fetch(connection, _NEXT_DUE, since=since, upto=now + _AHEAD)
    return made(("due_to", "kinds"), [(now + _AHEAD, {row.kind: row.n for row in rows})])


def _bucket(ms: float) -> str:
    return str(min(minute_stats.LAST_BUCKET, math.ceil(math.log2(max(ms, 1)))))


# Days


@instead_of(partitions._DAYS)
def _days(_connection: Connection, _given: Parameters) -> Sequence[Row[Any]]:
    """All days that can be asked for are there: the table has no end."""
    today = clock().date()
    ahead = range(partitions.DAYS_AHEAD + 1)
    return made(("day",), [(f"{today + timedelta(days=n):%Y%m%d}",) for n in ahead])


@instead_of(partitions._TODAY)
def _today(_connection: Connection, _given: Parameters) -> Sequence[Row[Any]]:
    return made(("day",), [(clock().date(),)])


@instead_of(partitions._FIRST_KEPT)
def _first_kept(_connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    return made(("day",), [((clock() - timedelta(seconds=given["keep"])).date(),)])


# Switches stay: they are few, and one may be in force.
_CLEAR = """
DELETE FROM job_events WHERE id IN (
  SELECT id FROM job_events WHERE created_at < :day
    AND (job_id IS NOT NULL OR event NOT IN (SELECT value FROM json_each(:switches)))
  ORDER BY id LIMIT :limit)
RETURNING id
"""


@instead_of(partitions._CLEAR_DEFAULT, writes=True)
def _clear(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    return fetch(connection, _CLEAR, **{**given, "day": f"{given['day']}T00:00:00.000000+00:00"})
