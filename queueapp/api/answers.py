"""What an answer holds: the models that the documentation is made from.

The answers themselves are written by ``describe``, field by field; the tests hold each against its
model. Clients ignore fields that they do not know, so nothing here forbids more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from queueapp.api.model import Model
from queueapp.jobs.status import Status
from queueapp.jobs.system.told import Tone
from queueapp.jobs.verdict import Level

# A member that is left out where it says nothing.
_NOT_ALWAYS: Any = None


def _says(about: str) -> Any:
    return Field(description=about)


class JobSummary(Model):
    """A job as lists show it."""

    id: Annotated[int, _says("Its number.")]
    kind: Annotated[str, _says("Which handler runs it.")]
    status: Annotated[Status, _says("Where it stands: succeeded, failed and cancelled are final.")]
    priority: Annotated[int, _says("Higher runs first.")]
    available_at: Annotated[datetime, _says("When it is due, or was.")]
    attempts: Annotated[int, _says("Claims since it was created or last retried.")]
    max_attempts: Annotated[int, _says("How many attempts it has.")]
    handbacks: Annotated[int, _says("Attempts given back without being used.")]
    held_for: Annotated[Literal["kind", "job"] | None, _says("What is on hold, while held.")]
    locked_by: Annotated[str | None, _says("The worker that has it.")]
    lease_expires_at: Annotated[datetime | None, _says("Until when that worker has it.")]
    claimed_at: Annotated[datetime | None, _says("Since when that worker has it.")]
    cancel_requested_at: Annotated[
        datetime | None, _says("When somebody asked the running handler to stop.")
    ]
    progress: Annotated[int | None, Field(ge=0, le=100, description="What the handler says.")]
    progress_note: Annotated[str | None, _says("The same in words.")]
    error_class: Annotated[str | None, _says("The class of the last failure.")]
    error_fingerprint: Annotated[str | None, _says("Equal fingerprints have one cause.")]
    producer: Annotated[str, _says("Whose it is.")]
    idempotency_key: Annotated[str | None, _says("The key it was created with.")]
    timeout: Annotated[
        int | None, _says("Seconds for one attempt, 0 for no limit; null: the setting decides.")
    ]
    created_at: Annotated[datetime, _says("When it was created.")]
    started_at: Annotated[datetime | None, _says("When the present or last attempt began.")]
    finished_at: Annotated[datetime | None, _says("When it ended for good.")]


class Job(JobSummary):
    """A job whole."""

    payload: Annotated[Any, _says("The handler's arguments.")]
    result: Annotated[Any, _says("What the handler returned.")]
    error_message: Annotated[str | None, _says("The text of the last failure.")]


class JobPart(Job):
    """The fields of a job that were asked for with `fields`."""


for _field in JobPart.model_fields.values():
    _field.default = _NOT_ALWAYS
JobPart.model_rebuild(force=True)


class JobsPage(Model):
    """A page of jobs, newest first."""

    items: Annotated[list[JobSummary | JobPart], _says("The jobs.")]
    next: Annotated[str | None, _says("The cursor of the next page, for before: older jobs.")]
    previous: Annotated[str | None, _says("The cursor of newer jobs, for after; null at the top.")]
    cut: Annotated[
        bool,
        _says(
            "Only 20,000 jobs from the cursor on were looked at; next goes on, with after previous."
        ),
    ]
    count: Annotated[int, Field(ge=0, le=10_000), _says("With `count=true`: how many.")] = (
        _NOT_ALWAYS
    )
    capped: Annotated[bool, _says("With `count=true`: there may be more than that.")] = _NOT_ALWAYS


class Event(Model):
    """One line of a job's history."""

    id: Annotated[int, _says("Its number.")]
    job_id: Annotated[int, _says("The job.")]
    event: Annotated[str, _says("What happened; the list of names grows.")]
    from_status: Annotated[Status | None, _says("The status before.")]
    to_status: Annotated[Status | None, _says("The status after.")]
    attempt: Annotated[int | None, _says("Which attempt, from 1.")]
    actor: Annotated[str, _says("Who did it.")]
    reason: Annotated[str | None, _says("Why.")]
    data: Annotated[Any, _says("More about it, by the name of the event.")]
    created_at: Annotated[datetime, _says("When.")]


class EventsPage(Model):
    """A page of a job's history, oldest first."""

    items: Annotated[list[Event], _says("The lines.")]
    next: Annotated[str | None, _says("The cursor of the next page, for after.")]


class FeedLine(Event):
    """One line of the ledger, about a job or about the queue itself."""

    job_id: Annotated[int | None, _says("The job; null where it is not about one.")]  # type: ignore[assignment]
    kind: Annotated[str | None, _says("The job's kind.")]
    scope: Annotated[str | None, _says("What else it is about, as `queue` or `kind:mail.send`.")]


class FeedAnswer(Model):
    """A page of the feed, oldest first."""

    items: Annotated[list[FeedLine], _says("The lines.")]
    next: Annotated[str, _says("Where to go on, for after; also when there is nothing more yet.")]
    more: Annotated[bool, _says("There are more lines already: do not wait before you ask.")]
    held_back_s: Annotated[
        float | None,
        _says("How long the oldest writing transaction has been open; lines wait behind it."),
    ]


class FieldProblem(Model):
    """What is wrong in one place of a request."""

    pointer: Annotated[str, _says("Where in the body: a JSON pointer.")] = _NOT_ALWAYS
    parameter: Annotated[str, _says("Which parameter of the query.")] = _NOT_ALWAYS
    detail: Annotated[str, _says("What is wrong there.")]


class ItemProblem(Model):
    """Why a job of a bulk was not created."""

    code: Annotated[str, _says("The code that the job alone would have been refused with.")]
    detail: Annotated[str, _says("For people.")]
    fields: Annotated[list[str], _says("Of a conflict: the fields that differ.")] = _NOT_ALWAYS
    errors: Annotated[list[FieldProblem], _says("Of an invalid job: what is wrong where.")] = (
        _NOT_ALWAYS
    )


class BulkItem(Model):
    """What became of one job of a bulk."""

    outcome: Annotated[
        Literal["new", "replay", "conflict", "invalid", "full"], _says("What became of it.")
    ]
    id: Annotated[int, _says("The job's number, where there is one.")] = _NOT_ALWAYS
    url: Annotated[str, _says("The job's address, where there is one.")] = _NOT_ALWAYS
    problem: Annotated[ItemProblem, _says("Unless new or replay: why.")] = _NOT_ALWAYS


class BulkCounts(Model):
    """How many jobs of a bulk had each outcome."""

    new: int
    replay: int
    conflict: int
    invalid: int
    full: Annotated[int, _says("Where the queue has become full: for how many.")] = _NOT_ALWAYS


class BulkAnswer(Model):
    """What became of the jobs of a bulk, in their order."""

    counts: Annotated[BulkCounts, _says("How many had each outcome.")]
    items: Annotated[list[BulkItem], _says("One for each job.")]


class Count(Model):
    """A count that stops at 10,000."""

    count: Annotated[int, Field(ge=0, le=10_000)]
    more: Annotated[bool, _says("There are more.")]


class Stats(Model):
    """The state of the queue in numbers."""

    as_of: Annotated[datetime, _says("The database's clock.")]
    status: Annotated[dict[Status, Count], _says("The jobs by status.")]
    due: Annotated[Count, _says("How many could start now.")]
    oldest_due_at: Annotated[datetime | None, _says("Since when the first in the line is due.")]
    oldest_due_age_s: Annotated[float | None, _says("The same in seconds: alert on this.")]
    oldest_transaction_s: Annotated[
        float | None, _says("The age of the transaction that keeps the tables from being cleaned.")
    ]


class SystemReading(Model):
    """One answer about the database."""

    code: Annotated[str, _says("What it is about: never changes its meaning.")]
    title: Annotated[str, _says("The same for people.")]
    tone: Annotated[Tone, _says("How well it is; unknown is what could not be read.")]
    sentence: Annotated[str, _says("What was found, for people; may be reworded.")]
    next_step: Annotated[str, _says("What to do; empty where nothing is.")]
    command: Annotated[str, _says("The command of that step, for a person; or empty.")]
    evidence: Annotated[list[dict[str, str]], _says("What it was told from, by column.")]


class SystemReport(Model):
    """How well the database serves the queue."""

    as_of: Annotated[datetime, _says("The database's clock.")]
    readings: Annotated[list[SystemReading], _says("The readings, the worst first.")]


class Health(Model):
    """The process answers."""

    status: Literal["ok"]
    verdict: Annotated[Level, _says("The queue's; what is not known is never green.")]
    rule: Annotated[str, _says("The rule behind it; `GET /api/verdict` tells more.")]
    age_s: Annotated[float, _says("How old that is.")]


class Ready(Model):
    """The process can do its work."""

    status: Literal["ready"]
    schema_: Annotated[str | None, Field(alias="schema", description="The schema's revision.")]
    ledger_days_ahead: Annotated[int, _says("For how many days the ledger has partitions.")]
    warnings: Annotated[list[str], _says("What will become a problem.")]


class Kind(Model):
    """A kind of job that may be created here."""

    kind: Annotated[str, _says("Its name.")]
    about: Annotated[str, _says("One line for people.")]
    owner: Annotated[str | None, _says("Who answers for it, as its handler says.")]
    docs: Annotated[str | None, _says("The page that describes it, as its handler says.")]
    payload: Annotated[dict[str, Any], _says("What its payload must be: JSON Schema 2020-12.")]
    max_attempts: Annotated[int, _says("Attempts of a job that names none.")]
    timeout: Annotated[
        float, _says("Seconds for one attempt of a job that names none; 0: no limit.")
    ]
    external: Annotated[bool, _says("Run by other programs than flask work.")]


class Kinds(Model):
    """Every kind, by name."""

    items: Annotated[list[Kind], _says("The kinds.")]


class Problem(Model):
    """A refusal (RFC 9457). Decide by ``code``; some codes have more members."""

    type: Annotated[str, _says("Where the code is documented.")]
    title: Annotated[str, _says("The code in words.")]
    status: Annotated[int, _says("The HTTP status again.")]
    detail: Annotated[str, _says("What is wrong with this request, for people.")]
    code: Annotated[str, _says("Never changes its meaning.")]
    request_id: Annotated[str, _says("The id of the request in the log.")]
    errors: Annotated[
        list[FieldProblem], _says("What is wrong where, if it is several things.")
    ] = _NOT_ALWAYS
    limit: Annotated[str, _says("Of beyond_limit and rate_limited: which limit of the token.")] = (
        _NOT_ALWAYS
    )
    retry_after: Annotated[int, _says("Of 429 and 503: the header Retry-After again.")] = (
        _NOT_ALWAYS
    )
    job_id: Annotated[int, _says("The job that it is about.")] = _NOT_ALWAYS
    items: Annotated[
        list[dict[str, Any]], _says("Of lease_lost: what the answer would have held.")
    ] = _NOT_ALWAYS
