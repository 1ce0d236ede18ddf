"""Where the API has what a list shows, narrowed in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import url_for

from queueapp.api.describe import instant
from queueapp.jobs.queries import EventFilter, JobFilter, Span, View
from queueapp.jobs.queries.filters import written_filter

# More characters no text has that the API is asked for.
_LONGEST = 200
_SPANS = ("created", "available", "finished")


def jobs_as_json(where: JobFilter) -> str | None:
    """The address of just these jobs; None where the API cannot be asked for them."""
    asked: dict[str, Any] = {}
    for name, value in written_filter(where).items():
        if name in _SPANS:
            span: Span = getattr(where, name)
            ends = (("from", span.start), ("to", span.end))
            asked |= {f"{name}_{end}": instant(at) for end, at in ends if at}
        elif name == "payload":
            asked |= {f"payload.{path}": wanted for path, wanted in value}
        elif name == "view":
            asked["due"] = "true" if value == View.DUE else "false"
        else:
            asked[name] = value
    if where.view is View.RETRYING and where.attempts is None:
        asked["attempts_min"] = max(where.attempts_min or 0, 1)
    return None if _is_beyond(asked, where) else url_for("api_lists.jobs", **asked)


def _is_beyond(asked: Mapping[str, Any], where: JobFilter) -> bool:
    fields = {f"payload.{field.path}" for field in where.payload}
    texts = (value for name, value in asked.items() if name not in fields)
    untried = where.view is View.RETRYING and where.attempts == 0
    return untried or any(isinstance(value, str) and len(value) > _LONGEST for value in texts)


def events_as_json(where: EventFilter, *, is_empty: bool) -> str | None:
    """The address of just these lines; ``is_empty``: there are none, perhaps for want of the job.

    The API follows the whole ledger, and knows the history of a job; other filters are for files.
    """
    if where == EventFilter():
        return url_for("api_feed.feed")
    if where == EventFilter(job_id=where.job_id) and not is_empty:
        return url_for("api_jobs.events", job_id=where.job_id)
    return None


def causes_as_json(kind: str) -> str | None:
    """The address of the causes, of those that have hit ``kind`` if that is not empty."""
    if len(kind) > _LONGEST or "\x00" in kind:
        return None
    return url_for("api_causes.causes", kind=kind or None)
