"""Jobs and ledger lines as JSON: the field's word everywhere, instants in UTC to the microsecond.

Lists leave out the bodies (payload, result, error text); the single job has them. No lease token
is ever shown: it is what a holder proves itself with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from flask import Response

from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.why import Why
from queueapp.redaction import Redaction

LISTED = (
    "id", "kind", "status", "priority", "available_at", "attempts", "max_attempts", "handbacks",
    "held_for", "locked_by", "lease_expires_at", "claimed_at", "cancel_requested_at", "progress",
    "progress_note", "error_class", "error_fingerprint", "producer", "idempotency_key", "timeout",
    "created_at", "started_at", "finished_at",
)  # fmt: skip
# What may be large.
BODIES = ("payload", "result", "error_message")
WHOLE = (*LISTED, *BODIES)
EVENT = (
    "id", "job_id", "event", "from_status", "to_status", "attempt", "actor", "reason", "data",
    "created_at",
)  # fmt: skip
FEED = ("id", "job_id", "kind", "scope", *EVENT[2:])
# A unit in a column's name is for those who write SQL.
_COLUMNS = {"timeout": "timeout_s"}


def listed_job(
    job: Any, names: Sequence[str] = LISTED, hidden: Redaction | None = None
) -> dict[str, Any]:
    """A job as lists show it: its fields of these names, without what is hidden."""
    shown = _fields(job, names)
    return hidden.of_job(job.kind, shown) if hidden else shown


def columns_of(names: Sequence[str]) -> list[Any]:
    """The columns that hold these fields, and those that say what job it is."""
    needed = dict.fromkeys(("id", "kind", *names))
    return [getattr(Job, _COLUMNS.get(name, name)) for name in needed]


def whole_job(job: Any, hidden: Redaction | None = None) -> dict[str, Any]:
    """A job with its payload, result and error text; any row that has its columns."""
    return listed_job(job, WHOLE, hidden)


def event(line: JobEvent) -> dict[str, Any]:
    """A line of the ledger."""
    return _fields(line, EVENT)


def feed_line(line: Any) -> dict[str, Any]:
    """A line of the ledger, about a job or about anything else."""
    return _fields(line, FEED)


def why(answer: Why) -> dict[str, Any]:
    """Why a job stands where it does."""
    return {
        "job_id": answer.job_id,
        "status": answer.status,
        "rule": answer.rule,
        "sentence": answer.sentence,
        "next_step": answer.next_step,
        "evidence": deep(answer.evidence),
        "also": [{"rule": one.rule, "sentence": one.sentence} for one in answer.also],
        "as_of": instant(answer.as_of),
    }


def instant(value: datetime) -> str:
    """RFC 3339 in UTC, always with six digits: as text they sort by time."""
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant_or_null(value: datetime | None) -> str | None:
    """The same of what may not be known."""
    return None if value is None else instant(value)


def json_text(value: Any) -> str:
    """Write JSON that any reader takes, one line."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        # Stored by other means than ours: jsonb holds numbers that no float can.
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def json_answer(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with ``value``."""
    text = json_text(value) + "\n"
    return Response(text, status, headers=headers, content_type="application/json")


def _fields(row: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: _plain(getattr(row, _COLUMNS.get(name, name))) for name in names}


def _plain(value: Any) -> Any:
    return instant(value) if isinstance(value, datetime) else value


def deep(value: Any) -> Any:
    """A value with the instants in it written out."""
    if isinstance(value, dict):
        return {name: deep(item) for name, item in value.items()}
    return _plain(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
