"""The state of the queue in numbers. Every count stops at a bound and says so."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from queueapp.api import answers
from queueapp.api.contract import Answer, Example, Part, contract
from queueapp.api.describe import instant, json_answer
from queueapp.auth import Permission, permits
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import COUNT_LIMIT, WaitingCounts

bp = Blueprint("api_stats", __name__, url_prefix="/api")


@bp.get("/stats")
@permits(Permission.READ)
@contract(
    Part.QUEUE,
    {200: Answer("The numbers.", answers.Stats)},
    examples=(Example("How much waits, and since when?"),),
)
def stats() -> Response:
    """Count the jobs by status, and say how much is due and since when."""
    session = db.session()
    queries.bound_reads(session)
    depths = queries.depth_by_priority(session)
    counts = queries.status_counts(session, depths=depths)
    due = WaitingCounts.of(depths).due
    now = queries.database_now(session)
    oldest = min((depth.oldest_at for depth in depths if depth.oldest_at), default=None)
    return json_answer(
        {
            "as_of": instant(now),
            "status": {status.value: _counted(count) for status, count in counts.items()},
            "due": {"count": due.count, "more": due.capped},
            "oldest_due_at": None if oldest is None else instant(oldest),
            "oldest_due_age_s": None
            if oldest is None
            else max(0.0, (now - oldest).total_seconds()),
            "oldest_transaction_s": queries.oldest_transaction_s(session),
        }
    )


def _counted(count: int) -> dict[str, Any]:
    return {"count": min(count, COUNT_LIMIT), "more": count > COUNT_LIMIT}
