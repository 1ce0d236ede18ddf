"""What people send to move jobs: when to run, whose claim to end, and why."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema

from queueapp.api.schemas import (
    _NOT_SENT,
    LONGEST_REASON,
    _Body,
    _integral,
    _not_blank,
    _storable,
)
from queueapp.handlers.context import LONGEST_DELAY_S
from queueapp.handlers.request import (
    LEAST_PRIORITY,
    MOST_PRIORITY,
    EnqueueRequest,
    instant,
    request_problems,
)


def _due(text: Any) -> Any:
    """The moment in ``text``, within the same bounds as that of a new job."""
    asked = EnqueueRequest(kind="", available_at=text)
    found = [one for one in request_problems(asked) if one["pointer"] == "/available_at"]
    if found:
        raise ValueError(found[0]["detail"])
    return instant(text)


def _seen(text: Any) -> Any:
    try:
        return instant(text)
    except (ValueError, OverflowError) as error:
        wanted = str(error)
        raise ValueError(
            wanted if wanted.startswith("must") else "is no such date or time"
        ) from None


_MOMENT = WithJsonSchema({"type": "string", "format": "date-time"})

Due = Annotated[Any, BeforeValidator(_due), _MOMENT]
Seen = Annotated[Any, BeforeValidator(_seen), _MOMENT]
Delay = Annotated[float, Field(ge=0, le=LONGEST_DELAY_S)]
Priority = Annotated[int, Field(ge=LEAST_PRIORITY, le=MOST_PRIORITY), BeforeValidator(_integral)]
Reason = Annotated[str, Field(max_length=LONGEST_REASON), AfterValidator(_storable)]
# Of what nobody could tell later why it was done.
Why = Annotated[
    Reason,
    Field(min_length=1, description="Why; the ledger keeps it with each job."),
    AfterValidator(_not_blank),
]


class HoldBody(_Body):
    """Why a job is not to start."""

    reason: Why


class RescheduleBody(_Body):
    """Where a waiting job is to stand in the line: at least one of the first three."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": [one]} for one in ("available_at", "delay", "priority")],
            "not": {"required": ["available_at", "delay"]},
        }
    )

    available_at: Annotated[
        Due,
        Field(
            description="When it is to be due, with an offset; not beside `delay`. A time that has"
            " passed is now."
        ),
    ] = _NOT_SENT
    delay: Annotated[Delay, Field(description="Seconds from now until it is due; 0: now.")] = (
        _NOT_SENT
    )
    priority: Annotated[Priority, Field(description="Higher runs first.")] = _NOT_SENT
    reason: Annotated[Reason, Field(description="Why; kept in the ledger.")] = _NOT_SENT


class ReleaseBody(_Body):
    """Whose job is taken: the claim that you have seen."""

    claimed_at: Annotated[
        Seen, Field(description="The job's `claimed_at` as you saw it: it tells claims apart.")
    ]
    reason: Annotated[Reason, Field(description="Why; kept in the ledger.")] = _NOT_SENT


class PurgeBody(_Body):
    """Why a job is removed for good."""

    reason: Why
