"""What workers in any language send: leases asked for, and what has become of their jobs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field

from queueapp.api.schemas import _NOT_SENT, Text, _Body, _integral, _storable
from queueapp.api.waiting import LONGEST_WAIT_S
from queueapp.handlers.context import NOTE_LIMIT
from queueapp.jobs.backoff import LONGEST_WAIT_S as LONGEST_DELAY_S

MOST_KINDS = 100
MOST_LEASES = 100
MOST_ITEMS = 500
LONGEST_LEASE_S = 86_400
LONGEST_ERROR = 100_000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def _uuid(value: Any) -> Any:
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise ValueError("must be the token of a lease")
    return UUID(value)


def _each_once(items: list[Any]) -> list[Any]:
    seen = set()
    for item in items:
        key = getattr(item, "token", item)
        if key in seen:
            raise ValueError("has one of them twice")
        seen.add(key)
    return items


Kind = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,99}$")]
Seconds = Annotated[float, Field(ge=1, le=LONGEST_LEASE_S)]
Delay = Annotated[float, Field(ge=0, le=LONGEST_DELAY_S)]
ErrorText = Annotated[str, Field(max_length=LONGEST_ERROR), AfterValidator(_storable)]


class LeaseBody(_Body):
    """Which jobs a worker would run now, and on what terms; null is no value."""

    kinds: Annotated[
        list[Kind], Field(min_length=1, max_length=MOST_KINDS), AfterValidator(_each_once)
    ]
    max: Annotated[int, Field(ge=1, le=MOST_LEASES), BeforeValidator(_integral)] = 1
    lease: Seconds = _NOT_SENT
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)] = 0.0


class Lease(_Body):
    """A lease by what proves it."""

    id: Annotated[int, Field(ge=1, lt=2**63), BeforeValidator(_integral)]
    token: Annotated[UUID, BeforeValidator(_uuid)]


class RenewBody(_Body):
    """The leases that a worker has and wants to keep."""

    items: Annotated[
        list[Lease], Field(min_length=1, max_length=MOST_ITEMS), AfterValidator(_each_once)
    ]
    lease: Seconds = _NOT_SENT


class Report(Lease):
    """How far one job is."""

    percent: Annotated[int, Field(ge=0, le=100), BeforeValidator(_integral)]
    note: Annotated[str, Field(max_length=NOTE_LIMIT), AfterValidator(_storable)] = _NOT_SENT


class ProgressBody(_Body):
    """How far jobs are."""

    items: Annotated[
        list[Report], Field(min_length=1, max_length=MOST_ITEMS), AfterValidator(_each_once)
    ]


class Succeed(Lease):
    """The work is done."""

    verb: Literal["succeed"]
    result: Any = None


class Fail(Lease):
    """The work failed: the attempt is used up."""

    verb: Literal["fail"]
    error_class: Text = "Error"
    error_message: ErrorText = ""
    traceback: ErrorText = _NOT_SENT
    permanent: bool = False
    retry_after: Delay = _NOT_SENT


class Defer(Lease):
    """The work has to wait: the attempt is given back."""

    verb: Literal["defer"]
    delay: Delay


class Release(Lease):
    """Somebody else shall do the work, now: the attempt is given back."""

    verb: Literal["release"]


End = Annotated[Succeed | Fail | Defer | Release, Field(discriminator="verb")]


class SettleBody(_Body):
    """What has become of jobs."""

    items: Annotated[
        list[End], Field(min_length=1, max_length=MOST_ITEMS), AfterValidator(_each_once)
    ]
