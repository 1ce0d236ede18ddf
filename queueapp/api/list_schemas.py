"""What may be asked of the lists: which jobs, and which page of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from queueapp.api.describe import WHOLE
from queueapp.api.schemas import MOST_EVENTS, Text, _digits, _Query, _says, _truth
from queueapp.handlers.registry import MOST_ATTEMPTS
from queueapp.handlers.request import EARLIEST, LEAST_PRIORITY, MOST_PRIORITY, instant
from queueapp.jobs.names import OPERATION
from queueapp.jobs.queries import (
    MOST_FIELDS,
    FeedCursor,
    JobFilter,
    PayloadField,
    Span,
    View,
    payload_fields,
    read_payload_field,
)
from queueapp.jobs.status import Status

MOST_JOBS = 500
NOW = "now"
# Bodies may be of 256 KiB each.
MOST_WITH_BODIES = 50
# Nothing is older, and an instant can be reckoned with on both sides of these.
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)

# What the addresses of the console have for parts of ``queued``.
_VIEWS: dict[str, str] = {
    View.DUE: "`due=true`",
    View.SCHEDULED: "`due=false`",
    View.RETRYING: "`due=false&attempts_min=1`",
}


def _statuses(text: Any) -> Any:
    names = text.split(",") if isinstance(text, str) else text
    for name in names:
        if name not in set(Status):
            said = f"must be one or more of {', '.join(Status)}"
            raise ValueError(f"{said}; {name} is {_VIEWS[name]}" if name in _VIEWS else said)
    return tuple(Status(name) for name in names)


def _names(text: Any) -> Any:
    return tuple(text.split(",")) if isinstance(text, str) else text


def _instant(text: Any) -> datetime:
    try:
        found = instant(str(text))
    except OverflowError:
        found = None
    if found is None or not EARLIEST <= found < _LATEST:
        raise ValueError("must be a time from the years 1970 to 9998")
    return found


def _payload(texts: Any) -> tuple[PayloadField, ...]:
    return payload_fields(read_payload_field(text) for text in texts)


def _feed_cursor(text: Any) -> Any:
    return text if text == NOW else FeedCursor.parse(str(text))


Cursor = Annotated[
    int,
    Field(ge=1, lt=2**63),
    BeforeValidator(_digits),
    # What it is made of may change.
    WithJsonSchema({"type": "string"}),
]
OperationId = Annotated[str, Field(pattern=f"^{OPERATION.pattern}$")]
_Priority = Annotated[int, Field(ge=LEAST_PRIORITY, le=MOST_PRIORITY), BeforeValidator(_digits)]
Attempts = Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)]
_Attempts = Annotated[Attempts, BeforeValidator(_digits)]
Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class JobsFilter(_Query):
    """Which jobs."""

    status: Annotated[
        tuple[Status, ...],
        BeforeValidator(_statuses),
        _says("One or more, repeated or separated by commas."),
    ] = ()
    due: Annotated[
        Annotated[bool, BeforeValidator(_truth)] | None,
        _says("Queued jobs whose time has come; false: those whose time is still to come."),
    ] = None
    kind: Annotated[Text | None, _says("Exactly this kind.")] = None
    producer: Annotated[Text | None, _says("Exactly this producer.")] = None
    priority: Annotated[_Priority | None, _says("Exactly this priority.")] = None
    priority_min: Annotated[_Priority | None, _says("This priority or a higher one.")] = None
    priority_max: Annotated[_Priority | None, _says("This priority or a lower one.")] = None
    fingerprint: Annotated[Text | None, _says("Exactly this error fingerprint.")] = None
    idempotency_key: Annotated[Text | None, _says("Exactly this key.")] = None
    operation: Annotated[
        OperationId | None, _says("Those that this operation over many jobs has moved.")
    ] = None
    worker: Annotated[Text | None, _says("Those that this worker runs now.")] = None
    attempts: Annotated[_Attempts | None, _says("Begun exactly so many times.")] = None
    attempts_min: Annotated[_Attempts | None, _says("Begun so many times or more.")] = None
    payload: Annotated[
        Any,
        BeforeValidator(_payload),
        WithJsonSchema(
            {
                "type": "array",
                "items": {"type": "string", "pattern": r"^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*=.+$"},
                "maxItems": MOST_FIELDS,
            }
        ),
        _says(
            "A field of the payload and its value: `order.id=42`, also as `payload.order.id=42`."
            " Repeated: all of them."
        ),
    ] = ()
    created_from: Annotated[Instant | None, _says("Created then or later.")] = None
    created_to: Annotated[Instant | None, _says("Created before then.")] = None
    available_from: Annotated[Instant | None, _says("Due then or later.")] = None
    available_to: Annotated[Instant | None, _says("Due before then.")] = None
    finished_from: Annotated[Instant | None, _says("Ended for good then or later.")] = None
    finished_to: Annotated[Instant | None, _says("Ended for good before then.")] = None
    fields: Annotated[
        tuple[str, ...],
        BeforeValidator(_names),
        WithJsonSchema({"type": "array", "items": {"type": "string", "enum": list(WHOLE)}}),
        _says("Only these, separated by commas; else all but payload, result and error_message."),
    ] = ()

    def where(self, producer: str | None) -> JobFilter:
        """The filter, for jobs of ``producer`` if that is given."""
        views = {None: None, True: View.DUE, False: View.SCHEDULED}
        return JobFilter(
            status=self.status,
            view=views[self.due],
            kind=self.kind,
            producer=producer,
            priority=self.priority,
            priority_min=self.priority_min,
            priority_max=self.priority_max,
            fingerprint=self.fingerprint,
            idempotency_key=self.idempotency_key,
            operation=self.operation,
            worker=self.worker,
            attempts=self.attempts,
            attempts_min=self.attempts_min,
            payload=self.payload,
            created=Span(self.created_from, self.created_to),
            available=Span(self.available_from, self.available_to),
            finished=Span(self.finished_from, self.finished_to),
        )


class JobsQuery(JobsFilter):
    """Which jobs to list, and which page of them."""

    limit: Annotated[
        int, Field(ge=1, le=MOST_JOBS, description="How many jobs."), BeforeValidator(_digits)
    ] = 50
    before: Annotated[Cursor | None, _says("The `next` of another page: older jobs.")] = None
    after: Annotated[Cursor | None, _says("The `previous` of another page: newer jobs.")] = None
    count: Annotated[
        bool, BeforeValidator(_truth), _says("Say how many there are, 10,000 at most.")
    ] = False


class ExportQuery(JobsFilter):
    """Which jobs to export."""


class FeedQuery(_Query):
    """Which lines of the feed."""

    after: Annotated[
        FeedCursor | str | None,
        BeforeValidator(_feed_cursor),
        WithJsonSchema({"type": "string"}),
        _says("The `next` of the answer before; `now`: behind what there is. Else the oldest."),
    ] = None
    limit: Annotated[
        int, Field(ge=1, le=MOST_EVENTS, description="How many lines."), BeforeValidator(_digits)
    ] = 100
