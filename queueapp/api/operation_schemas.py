"""What operations over many jobs are asked for with, and what is said of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from queueapp.api.acting_schemas import Delay, Due, Priority, Reason
from queueapp.api.answers import Count
from queueapp.api.describe import instant
from queueapp.api.list_schemas import Instant
from queueapp.api.schemas import _NOT_SENT, Text, _Body, _not_blank, _says
from queueapp.jobs.queries import JobFilter, Span
from queueapp.jobs.status import Status

VerbName = Literal["cancel", "retry", "hold", "unhold", "reschedule", "run-now"]
PLACE = ("available_at", "delay", "priority")


def _statuses(names: Any) -> Any:
    if not isinstance(names, list) or not names or len(names) > len(Status):
        raise ValueError("must be a list of statuses")
    if not all(isinstance(name, str) and name in set(Status) for name in names):
        raise ValueError(f"must be one or more of {', '.join(Status)}")
    return tuple(dict.fromkeys(Status(name) for name in names))


_STATUSES = WithJsonSchema(
    {
        "type": "array",
        "items": {"enum": [str(status) for status in Status]},
        "minItems": 1,
        "maxItems": len(Status),
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
    return {name: value for name, value in words.items() if value is not None}


class OperationBody(_Body):
    """What is to be done to which jobs, and why."""

    verb: Annotated[VerbName, _says("As for a single job.")]
    filter: Annotated[OperationFilter, _says("Which jobs.")]
    reason: Annotated[
        Reason,
        Field(min_length=1, description="Why; the ledger keeps it with each job."),
        AfterValidator(_not_blank),
    ]
    available_at: Annotated[
        Due, _says("Of a reschedule: when they are to be due; not beside `delay`.")
    ] = _NOT_SENT
    delay: Annotated[
        Delay, _says("Of a reschedule: seconds from when each is moved until it is due.")
    ] = _NOT_SENT
    priority: Annotated[Priority, _says("Of a reschedule: higher runs first.")] = _NOT_SENT
    canary: Annotated[
        bool,
        _says(
            "Of a retry: 5 jobs go ahead, and the rest follows by itself if 4 of them succeed"
            " within 10 minutes."
        ),
    ] = False


class CanaryJob(BaseModel):
    """A job that went ahead."""

    id: Annotated[int, _says("Its id.")]
    outcome: Annotated[
        Literal["succeeded", "failed", "cancelled", "gone"] | None,
        _says("Its first end since then; `gone`: removed before one. null while it is open."),
    ]


class CanaryOfOperation(BaseModel):
    """How a canary retry stands."""

    first: Annotated[int, _says("How many jobs go ahead.")]
    needed: Annotated[int, _says("How many of them have to succeed.")]
    jobs: Annotated[list[CanaryJob], _says("Those that went ahead.")]
    until: Annotated[
        datetime | None, _says("When it is stopped unless enough have succeeded; null before.")
    ]
    passed: Annotated[bool | None, _says("Whether enough have succeeded; null until decided.")]


class Operation(BaseModel):
    """An operation as it stands."""

    id: Annotated[str, _says("Its id; the lines of its jobs have it as `data.operation`.")]
    state: Annotated[
        Literal["planned", "canary", "applying", "stopped", "done"],
        _says("`stopped` and `done` are for good; `canary`: a worker decides."),
    ]
    verb: Annotated[VerbName, _says("What is done to each job.")]
    filter: Annotated[
        dict[str, Any],
        _says("Which jobs; `status` has those of the statuses asked for that the verb can move."),
    ]
    available_at: Annotated[datetime | None, _says("Of a reschedule, as asked for.")]
    delay: Annotated[float | None, _says("Of a reschedule, as asked for.")]
    priority: Annotated[int | None, _says("Of a reschedule, as asked for.")]
    reason: Annotated[str, _says("Why.")]
    planned_by: Annotated[str, _says("Who planned it.")]
    planned_at: Annotated[datetime, _says("When.")]
    planned: Annotated[Count, _says("How many jobs it was planned for.")]
    counts: Annotated[dict[Status, Count], _says("The same by their status then.")]
    moved: Annotated[int, _says("How many it has moved.")]
    skipped: Annotated[
        int | None,
        _says(
            "When it is done: how many of the plan it left alone, because they had changed since or"
            " somebody had them locked. null before, and where the plan has `more`."
        ),
    ]
    left: Annotated[
        Count,
        _says("How many jobs it would still look at; those that have changed are among them."),
    ]
    canary: Annotated[CanaryOfOperation | None, _says("Of a canary retry.")]
    end_reason: Annotated[
        str | None,
        _says("Why it was stopped; `canary_failed` or `canary_timed_out` where a worker did."),
    ]
    changed_by: Annotated[str, _says("Who planned, applied or stopped it last.")]
    changed_at: Annotated[datetime, _says("When.")]
