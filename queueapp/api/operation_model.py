"""What is said of operations over many jobs: the models that the documentation is made from."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from queueapp.api.answers import Count
from queueapp.api.model import Model
from queueapp.api.operation_schemas import VerbName
from queueapp.api.schemas import _says
from queueapp.jobs.status import Status


class CanaryJob(Model):
    """A job that went ahead."""

    id: Annotated[int, _says("Its id.")]
    outcome: Annotated[
        Literal["succeeded", "failed", "cancelled", "gone"] | None,
        _says("Its first end since then; `gone`: removed before one. null while it is open."),
    ]


class CanaryOfOperation(Model):
    """How a canary retry stands."""

    first: Annotated[int, _says("How many jobs go ahead.")]
    needed: Annotated[int, _says("How many of them have to succeed.")]
    jobs: Annotated[list[CanaryJob], _says("Those that went ahead.")]
    until: Annotated[
        datetime | None, _says("When it is stopped unless enough have succeeded; null before.")
    ]
    passed: Annotated[bool | None, _says("Whether enough have succeeded; null until decided.")]


class JobsCount(Model):
    """How many jobs; they are all counted."""

    count: Annotated[int, Field(ge=0, description="So many.")]
    more: Annotated[bool, _says("There may be more: not all have been looked at.")]


class OperationSummary(Model):
    """An operation as the list shows it."""

    id: Annotated[str, _says("Its id; the lines of its jobs have it as `data.operation`.")]
    state: Annotated[
        Literal["counting", "planned", "canary", "applying", "stopped", "done"],
        _says(
            "`stopped` and `done` are for good; `canary`: a worker decides; `counting`: apply goes"
            " on counting first."
        ),
    ]
    verb: Annotated[VerbName | Literal["undo"], _says("What is done to each job.")]
    undoes: Annotated[str | None, _says("Of an undo: the operation whose jobs it moves back.")]
    undone_by: Annotated[
        list[str], _says("The undos that have moved back jobs of it, the newest first.")
    ]
    undone: Annotated[int, _says("How many of its jobs they have moved back.")]
    filter: Annotated[
        dict[str, Any],
        _says("Which jobs; `status` has those of the statuses asked for that the verb can move."),
    ]
    available_at: Annotated[datetime | None, _says("Of a reschedule, as asked for.")]
    delay: Annotated[float | None, _says("Of a reschedule, as asked for.")]
    priority: Annotated[int | None, _says("Of a reschedule, as asked for.")]
    spread: Annotated[float | None, _says("Of a reschedule, as asked for.")]
    reason: Annotated[str, _says("Why.")]
    planned_by: Annotated[str, _says("Who planned it.")]
    planned_at: Annotated[datetime, _says("When.")]
    begun_by: Annotated[
        str | None, _says("Who confirmed it. null before, and where an older release began it.")
    ]
    begun_at: Annotated[datetime | None, _says("When.")]
    stopped_by: Annotated[str | None, _says("Who stopped it; null unless stopped.")]
    planned: Annotated[
        JobsCount, _says("How many jobs it is for; `more`: not all of them are counted yet.")
    ]
    moved: Annotated[int, _says("How many it has moved.")]
    stopping: Annotated[
        int, _says("How many of those ran, and were only asked to stop. They may end otherwise.")
    ]
    skipped: Annotated[
        int | None,
        _says(
            "When it is done: how many of the plan it left alone, because they had changed since or"
            " somebody had them locked. null before."
        ),
    ]
    end_reason: Annotated[
        str | None,
        _says("Why it was stopped; `canary_failed` or `canary_timed_out` where a worker did."),
    ]
    changed_by: Annotated[str, _says("Who planned, applied or stopped it last.")]
    changed_at: Annotated[datetime, _says("When.")]


class Operation(OperationSummary):
    """An operation as it stands."""

    counts: Annotated[dict[Status, JobsCount], _says("The jobs it is for by their status then.")]
    others: Annotated[
        dict[str, JobsCount],
        _says(
            "Jobs of the filter that it leaves alone, by the status that the verb does not move; of"
            " an undo `changed`, since something has happened to them, and `asked_to_stop`."
            " Counting them stops at 10,000."
        ),
    ]
    left: Annotated[
        Count,
        _says("How many jobs it would still look at; those that have changed are among them."),
    ]
    now: Annotated[
        dict[Status, JobsCount] | None,
        _says(
            "What has become of the jobs that it moved: how many stand where now, without those"
            " that were purged, by it or since; `more`: of 20,000 of them. null until it is over."
        ),
    ]
    canary: Annotated[CanaryOfOperation | None, _says("Of a canary retry.")]


class OperationsPage(Model):
    """A page of operations, the newest plan first."""

    items: Annotated[list[OperationSummary], _says("The operations.")]
    next: Annotated[str | None, _says("The cursor of the next page, for before.")]
