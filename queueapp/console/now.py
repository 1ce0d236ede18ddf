"""The first page: what is the state of the queue, and does it move?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from flask import Response
from sqlalchemy.orm import Session

from queueapp.auth import Permission, permits
from queueapp.console.answers import answer
from queueapp.console.blueprint import bp
from queueapp.console.charts import chart_of, share
from queueapp.console.readings import Reading, tried
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import PriorityDepth, Pulse, WaitingCounts
from queueapp.jobs.status import FINAL, Status

HOUR = timedelta(hours=1)
_PRIORITIES_SHOWN = 8


@bp.get("/")
@permits(Permission.READ)
def now() -> Response:
    """Show the numbers of the moment, the last minutes, long runs and new failures."""
    session = db.session()
    queries.bound_reads(session)
    pulse = queries.pulse(session)
    longest = tried(session, queries.longest_running)
    # The chart moves on with the minute; progress leaves no line in the ledger.
    mark = f"{pulse.mark} {pulse.now:%H:%M} {longest.reason} {_progress(longest)}"
    return answer(
        "now", as_of=pulse.now, mark=mark, context=lambda: _context(session, pulse, longest)
    )


def _context(session: Session, pulse: Pulse, longest: Reading[Any]) -> Mapping[str, Any]:
    counts = tried(session, queries.status_counts)
    depths = tried(session, queries.depth_by_priority)
    throughput = tried(session, queries.throughput, pulse.now)
    return {
        "counts": counts,
        "depths": depths,
        "priorities": (depths.value or [])[:_PRIORITIES_SHOWN],
        "more_priorities": len((depths.value or [])[_PRIORITIES_SHOWN:]),
        "waiting": _waiting(depths),
        "oldest": _oldest(depths),
        "failed": tried(session, queries.failed_since, HOUR),
        "chart": Reading(
            chart_of(throughput.value) if throughput.value else None, throughput.reason
        ),
        "longest": longest,
        "failures": tried(session, queries.newest_failures),
        "is_empty": counts.value is not None and not any(counts.value.values()),
        "final": FINAL,
        "open_scale": _open_scale(counts, depths),
        "share": share,
    }


def _waiting(depths: Reading[list[PriorityDepth]]) -> Reading[WaitingCounts]:
    value = None if depths.value is None else WaitingCounts.of(depths.value)
    return Reading(value, depths.reason)


def _oldest(depths: Reading[list[PriorityDepth]]) -> PriorityDepth | None:
    """The priority whose first due job has been waiting longest."""
    due = [depth for depth in depths.value or [] if depth.oldest_at is not None]
    return min(due, key=lambda depth: (depth.oldest_at is None, depth.oldest_at), default=None)


def _open_scale(counts: Reading[dict[Status, int]], depths: Reading[list[PriorityDepth]]) -> int:
    """The largest number of unfinished jobs in one row: the full length of a bar."""
    waiting = _waiting(depths).value
    numbers = [waiting.due, waiting.scheduled] if waiting else []
    if counts.value:
        numbers += [number for status, number in counts.value.items() if status not in FINAL]
    return max(numbers, default=0)


def _progress(longest: Reading[Any]) -> str:
    return ",".join(f"{row.id}:{row.progress}" for row in longest.value or ())
