"""Operations as JSON: in a list, and one by itself with what is left of it."""

from __future__ import annotations

from typing import Any

from queueapp.api import describe
from queueapp.api.operation_schemas import told_filter
from queueapp.extensions import db
from queueapp.jobs import operations, queries
from queueapp.jobs.operations import Counts, Operation, Undone
from queueapp.jobs.queries import JobFilter
from queueapp.jobs.status import Status


def listed(made: Operation, undone: Undone) -> dict[str, Any]:
    """An operation, of which so much is ``undone``, as the list shows it."""
    due = made.how.get("available_at")
    return {
        "id": made.id,
        "state": made.state,
        "verb": made.verb,
        "undoes": made.undoes,
        "undone_by": list(undone.by),
        "undone": undone.moved,
        "filter": told_filter(made.where),
        "available_at": describe.instant(due) if due else None,
        "delay": made.how.get("delay_s"),
        "priority": made.how.get("priority"),
        "spread": made.how.get("spread_s"),
        "reason": made.reason,
        "planned_by": made.planned_by,
        "planned_at": describe.instant(made.planned_at),
        "begun_by": made.begun_by,
        "begun_at": describe.instant(made.begun_at) if made.begun_at else None,
        "stopped_by": made.stopped_by,
        "planned": _count(made.counts),
        "moved": made.moved,
        "stopping": made.stopping,
        "skipped": made.skipped,
        "end_reason": made.end_reason,
        "changed_by": made.changed_by,
        "changed_at": describe.instant(made.changed_at),
    }


def told(made: Operation, left: Counts) -> dict[str, Any]:
    """An operation by itself; ``left``: the jobs that it would still look at."""
    return {
        **listed(made, operations.undone_of(db.session(), [made])[made.id]),
        "counts": {
            status: {"count": made.counts.by_status.get(status, 0), "more": not made.counts.whole}
            for status in Status
            if status in (made.where.status or made.counts.by_status)
        },
        "others": {
            why: {"count": number, "more": not made.others.whole}
            for why, number in made.others.by_status.items()
        },
        "left": _count(left),
        "now": _now(made),
        "canary": _canary(made),
    }


def _now(made: Operation) -> dict[str, Any] | None:
    """How the jobs that it has moved stand, counted once it is over."""
    if not made.is_over:
        return None
    split = queries.split_jobs(db.session(), JobFilter(operation=made.id))
    return {
        status: {"count": split.of(status).count, "more": split.of(status).capped}
        for status in Status
    }


def _count(counts: Counts) -> dict[str, Any]:
    return {"count": counts.total, "more": not counts.whole}


def _canary(made: Operation) -> dict[str, Any] | None:
    canary = made.canary
    if canary is None:
        return None
    trials = operations.trials_of(db.session(), made.id, canary, planned_at=made.planned_at)
    return {
        "first": canary.terms.first,
        "needed": canary.terms.needed,
        "jobs": [
            {"id": trial.id, "outcome": trial.fate if trial.has_ended else None} for trial in trials
        ],
        "until": describe.instant(canary.until) if canary.until else None,
        "passed": canary.passed,
    }
