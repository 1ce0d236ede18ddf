"""The minute's lines of the verdict, summed up in Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from queueapp.jobs.sqlite.replacements import Parameters, fetch, instead_of, row_of
from queueapp.jobs.sqlite.values import clock
from queueapp.jobs.sqlite.why import _LINES, kinds_of
from queueapp.jobs.verdict import statements


@instead_of(statements.MINUTES)
def _minutes(connection: Connection, given: Parameters) -> Sequence[Row[Any]]:
    now = clock()
    lines = fetch(connection, _LINES, **given, lines=statements.MOST_LINES)
    hour = [row for row in lines if row.created_at > now - timedelta(minutes=62)]
    recent = [row for row in hour if row.created_at > now - timedelta(seconds=statements.RECENT_S)]
    runs: dict[str, Counter[str]] = defaultdict(Counter)
    for row in lines[: statements.RUN_LINES]:
        for kind in given["running"]:
            runs[kind].update(kinds_of(row.data).get(kind, {}).get("run", {}))
    return row_of(
        now=now,
        # Nobody can be in the middle of a write when a line is made.
        uncounted_at=None,
        minutes=[_minute(row) for row in reversed(hour)],
        recent=_recent(recent, given["failing"]),
        runs=runs,
    )


def _minute(row: Row[Any]) -> dict[str, Any]:
    kinds = kinds_of(row.data).values()
    events: Counter[str] = Counter()
    waits: Counter[str] = Counter()
    for kind in kinds:
        events.update(kind["events"])
        waits.update(kind["wait"])
    retries = sum(_retries(kind) for kind in kinds)
    return {
        "at": row.created_at, "since": row.data.get("since"), "events": events, "waits": waits,
        "retries": retries,
        **{name: sum(kind.get(name) or 0 for kind in kinds) for name in ("later", "due")},
    }  # fmt: skip


def _retries(kind: dict[str, Any]) -> int:
    given_back = sum(kind["events"].get(name, 0) for name in ("released", "deferred"))
    return int(max(0, (kind.get("retries") or 0) - given_back))


def _recent(rows: Sequence[Row[Any]], failing: float) -> list[dict[str, Any]]:
    """``rows``: the newest line first."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    bad_at: dict[str, datetime] = {}
    ended_in: dict[str, list[datetime]] = defaultdict(list)
    for row in rows:
        for name, kind in kinds_of(row.data).items():
            counts = _of_line(kind)
            found[name].update(counts)
            if counts["attempts"]:
                ended_in[name].append(row.created_at)
            if counts["failures"] > failing * counts["attempts"]:
                bad_at.setdefault(name, row.created_at)
    for row in rows:
        for name, kind in kinds_of(row.data).items():
            if name in bad_at and row.created_at > bad_at[name]:
                counts = _of_line(kind)
                found[name].update(since=counts["attempts"], since_failed=counts["failures"])
    order = ("failures", "retries", "arrived")
    worst = sorted(found.items(), key=lambda each: [-each[1][name] for name in order])
    return [
        {**dict.fromkeys(("since", "since_failed"), 0), **counts, "kind": kind,
         "bad_at": bad_at.get(kind), "ended_in": ended_in[kind]}
        for kind, counts in worst[: statements.MOST_RECENT]
    ]  # fmt: skip


def _of_line(kind: dict[str, Any]) -> dict[str, int]:
    events = kind["events"]
    failures = events.get("failed", 0) + events.get("retry_scheduled", 0)
    arrived = events.get("enqueued", 0) + events.get("requeued", 0)
    return {
        "starts": events.get("claimed", 0),
        "retries": _retries(kind),
        "attempts": events.get("succeeded", 0) + failures,
        "failures": failures,
        "arrived": arrived + (kind.get("due") or 0) - (kind.get("later") or 0),
    }
