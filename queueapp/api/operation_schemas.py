"""What operations over many jobs are asked for with, and what is said of them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from queueapp.api.acting_schemas import Delay, Due, Priority, Why
from queueapp.api.describe import instant
from queueapp.api.list_schemas import Attempts, Instant, OperationId
from queueapp.api.schemas import (
    _NOT_SENT,
    Text,
    _Body,
    _digits,
    _integral,
    _Query,
    _says,
)
from queueapp.jobs import operations
from queueapp.jobs.queries import (
    MOST_FIELDS,
    JobFilter,
    PayloadField,
    Span,
    payload_field,
    payload_fields,
)
from queueapp.jobs.status import Status

VerbName = Literal["cancel", "retry", "hold", "unhold", "reschedule", "run-now", "purge"]
PLACE = ("available_at", "delay", "priority", "spread")
MOST_LISTED = 100
LONGEST_SPREAD_S = 86_400


def _statuses(names: Any) -> Any:
    if not isinstance(names, list) or not names or len(names) > len(Status):
        raise ValueError("must be a list of statuses")
    if not all(isinstance(name, str) and name in set(Status) for name in names):
        raise ValueError(f"must be one or more of {', '.join(Status)}")
    return tuple(dict.fromkeys(Status(name) for name in names))


def _payload(asked: Any) -> tuple[PayloadField, ...]:
    if not isinstance(asked, dict) or not asked:
        raise ValueError("must be an object of fields and their values")
    if any(isinstance(value, dict | list) for value in asked.values()):
        raise ValueError("a value must be a text, a number, true, false or null")
    return payload_fields(
        payload_field(path, value if isinstance(value, str) else json.dumps(value))
        for path, value in asked.items()
    )


_STATUSES = WithJsonSchema(
    {
        "type": "array",
        "items": {"enum": [str(status) for status in Status]},
        "minItems": 1,
        "maxItems": len(Status),
    }
)
_PAYLOAD = WithJsonSchema(
    {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        "minProperties": 1,
        "maxProperties": MOST_FIELDS,
    }
)
_SPANS = ("created", "available", "finished")


class OperationFilter(_Body):
    """Which jobs: those that match everything that is named; at least one field."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    status: Annotated[
        Any, BeforeValidator(_statuses), _STATUSES, _says("One or more statuses.")
    ] = _NOT_SENT
    kind: Annotated[Text, _says("Exactly this kind.")] = _NOT_SENT
    producer: Annotated[Text, _says("Exactly this producer.")] = _NOT_SENT
    priority: Annotated[Priority, _says("Exactly this priority.")] = _NOT_SENT
    priority_min: Annotated[Priority, _says("This priority or a higher one.")] = _NOT_SENT
    priority_max: Annotated[Priority, _says("This priority or a lower one.")] = _NOT_SENT
    fingerprint: Annotated[Text, _says("Exactly this error fingerprint.")] = _NOT_SENT
    idempotency_key: Annotated[Text, _says("Exactly this key.")] = _NOT_SENT
    operation: Annotated[OperationId, _says("Those that this other operation has moved.")] = (
        _NOT_SENT
    )
    worker: Annotated[Text, _says("Those that this worker runs.")] = _NOT_SENT
    attempts: Annotated[Attempts, BeforeValidator(_integral), _says("Begun so many times.")] = (
        _NOT_SENT
    )
    attempts_min: Annotated[
        Attempts, BeforeValidator(_integral), _says("Begun so many times or more.")
    ] = _NOT_SENT
    payload: Annotated[
        Any,
        BeforeValidator(_payload),
        _PAYLOAD,
        _says("Fields of the payload, names joined by dots, and their values; 42 is `42` too."),
    ] = _NOT_SENT
    created_from: Annotated[Instant, _says("Created then or later.")] = _NOT_SENT
    created_to: Annotated[Instant, _says("Created before then.")] = _NOT_SENT
    available_from: Annotated[Instant, _says("Due then or later.")] = _NOT_SENT
    available_to: Annotated[Instant, _says("Due before then.")] = _NOT_SENT
    finished_from: Annotated[Instant, _says("Ended for good then or later.")] = _NOT_SENT
    finished_to: Annotated[Instant, _says("Ended for good before then.")] = _NOT_SENT

    def where(self) -> JobFilter:
        """The filter; what was not sent narrows nothing."""
        sent = {name: getattr(self, name) for name in self.model_fields_set}
        spans: dict[str, Any] = {
            name: Span(sent.pop(f"{name}_from", None), sent.pop(f"{name}_to", None))
            for name in _SPANS
        }
        return JobFilter(**sent, **spans)


def told_filter(where: JobFilter) -> dict[str, Any]:
    """A filter in the words that it is asked for with."""
    words = {name: getattr(where, name, None) for name in OperationFilter.model_fields}
    for name in _SPANS:
        span = getattr(where, name)
        words[f"{name}_from"] = span.start and instant(span.start)
        words[f"{name}_to"] = span.end and instant(span.end)
    words["payload"] = dict(where.payload) or None
    # Of a plan that the console made: a part of the queued jobs.
    words["view"] = where.view
    return {name: value for name, value in words.items() if value is not None}


class OperationBody(_Body):
    """What is to be done to which jobs, and why."""

    verb: Annotated[VerbName, _says("As for a single job; `purge` is for admins.")]
    filter: Annotated[OperationFilter, _says("Which jobs.")]
    reason: Why
    available_at: Annotated[
        Due,
        _says(
            "Of a reschedule: when they are to be due; not beside `delay`. A time that has passed"
            " is now."
        ),
    ] = _NOT_SENT
    delay: Annotated[
        Delay, _says("Of a reschedule: seconds from when each is moved until it is due.")
    ] = _NOT_SENT
    priority: Annotated[Priority, _says("Of a reschedule: higher runs first.")] = _NOT_SENT
    spread: Annotated[
        float,
        Field(
            ge=0,
            le=LONGEST_SPREAD_S,
            description="Of a reschedule: seconds over which they become due, from the moment that"
            " is asked for on. Without one from now on: what is due later keeps its time.",
        ),
    ] = _NOT_SENT
    canary: Annotated[
        bool,
        _says(
            "Of a retry: 5 jobs go ahead, and the rest follows by itself if 4 of them succeed"
            " within 10 minutes."
        ),
    ] = False


class UndoBody(_Body):
    """Why an operation is undone."""

    reason: Why


def _cursor(text: Any) -> Any:
    return operations.Cursor.parse(str(text))


class OperationsQuery(_Query):
    """Which page of the operations."""

    limit: Annotated[
        int,
        Field(ge=1, le=MOST_LISTED, description="How many operations."),
        BeforeValidator(_digits),
    ] = 50
    before: Annotated[
        Any,
        BeforeValidator(_cursor),
        WithJsonSchema({"type": "string"}),
        _says("The `next` of another page: older operations."),
    ] = None
