"""What a request may hold: the models that check it, and that the documentation is made from.

Strict: unknown fields are refused, "5" is no number and true is not 1; but 5.0 is a whole number,
as in JSON Schema. Whether a job makes sense beyond its form is for ``handlers.enqueue`` to say.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)

from queueapp.api.model import Model
from queueapp.handlers.context import LONGEST_DELAY_S
from queueapp.handlers.json_limits import text_problem
from queueapp.handlers.registry import LONGEST_TIMEOUT_S, MOST_ATTEMPTS
from queueapp.handlers.request import LEAST_PRIORITY, LONGEST_KEY, MOST_PRIORITY

LONGEST_REASON = 1000
MOST_EVENTS = 200
LONGEST_WAIT_S = 20


def _storable(text: str) -> str:
    fault = text_problem(text)
    if fault:
        raise ValueError(fault)
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be only white space")
    return text


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digits(text: Any) -> Any:
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise ValueError("must be a whole number")
    return int(text)


def payload_parameters(given: dict[str, list[str]]) -> list[str]:
    """Take what is asked of the payload out of ``given``, each as ``path=value``.

    ``payload=order.id=42`` and ``payload.order.id=42`` are one.
    """
    found = given.pop("payload", [])
    for name in [name for name in given if name.startswith("payload.")]:
        found = found + [f"{name.removeprefix('payload.')}={value}" for value in given.pop(name)]
    return found


# The validator that runs first stands last, or the limits would vanish from the schema.
Text = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_storable)]
Key = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_KEY),
    AfterValidator(_not_blank),
    AfterValidator(_storable),
]

# A field that was not sent stays unset; its default is the handler's or the queue's business.
_NOT_SENT: Any = None


def _says(about: str) -> Any:
    return Field(description=about)


class _Body(Model):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Query(Model):
    model_config = ConfigDict(extra="forbid")


class NoBody(_Body):
    """Nothing: an empty object, or no body at all."""


class NoQuery(_Query):
    """No parameters."""


class JobBody(_Body):
    """A job to be created. Leave out what you do not care about; null is no value."""

    kind: Annotated[str, _says("Which handler runs it: one of `GET /api/kinds`.")]
    payload: Annotated[
        dict[str, Any],
        _says(
            "The handler's arguments, checked against its signature; at most 256 KiB, 32 levels."
        ),
    ] = _NOT_SENT
    priority: Annotated[
        int,
        Field(ge=LEAST_PRIORITY, le=MOST_PRIORITY, description="Higher runs first; 0 unless sent."),
        BeforeValidator(_integral),
    ] = _NOT_SENT
    delay: Annotated[
        float, Field(ge=0, le=LONGEST_DELAY_S, description="Seconds from now until it is due.")
    ] = _NOT_SENT
    available_at: Annotated[
        str,
        Field(
            description="When it is due, an RFC 3339 time with an offset; not beside `delay`.",
            json_schema_extra={"format": "date-time"},
        ),
    ] = _NOT_SENT
    max_attempts: Annotated[
        int,
        Field(ge=1, le=MOST_ATTEMPTS, description="How often it may be tried; else the kind's."),
        BeforeValidator(_integral),
    ] = _NOT_SENT
    timeout: Annotated[
        int,
        Field(
            ge=0,
            le=LONGEST_TIMEOUT_S,
            description="Seconds for one attempt, 0 for no limit; else the kind's.",
        ),
        BeforeValidator(_integral),
    ] = _NOT_SENT
    idempotency_key: Annotated[Key, _says("Belongs to this request; makes repeating it safe.")] = (
        _NOT_SENT
    )


class ReasonBody(_Body):
    """Why somebody moves a job; the ledger keeps it."""

    reason: Annotated[
        str,
        Field(max_length=LONGEST_REASON, description="Why; kept in the ledger."),
        AfterValidator(_storable),
    ] = _NOT_SENT


def _truth(text: Any) -> Any:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


class CreateQuery(_Query):
    """Whether to wait for the job's end."""

    wait: Annotated[
        int,
        Field(
            ge=0,
            le=LONGEST_WAIT_S,
            description="Answer when the job is final, or after so many seconds: read `status`.",
        ),
        BeforeValidator(_digits),
    ] = 0


class BulkQuery(_Query):
    """How many jobs are created."""

    atomic: Annotated[
        bool, BeforeValidator(_truth), _says("All or none; false: each that is good.")
    ] = True


class WhyQuery(_Query):
    """Nothing can be asked beyond the job."""


class EventsQuery(_Query):
    """Which lines of a job's history."""

    after: Annotated[
        int,
        Field(ge=0, lt=2**63),
        BeforeValidator(_digits),
        WithJsonSchema({"type": "string"}),
        Field(
            description="The `next` of the page before.",
            # The beginning: not a cursor that anybody is given.
            json_schema_extra=lambda schema: schema.pop("default", None),
        ),
    ] = 0
    limit: Annotated[
        int, Field(ge=1, le=MOST_EVENTS, description="How many lines."), BeforeValidator(_digits)
    ] = 100
