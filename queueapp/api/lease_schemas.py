"""What workers in any language send: leases asked for, and what has become of their jobs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field

from queueapp.api.schemas import _NOT_SENT, _Body, _integral, _says
from queueapp.api.waiting import LONGEST_WAIT_S
from queueapp.handlers.context import NOTE_LIMIT
from queueapp.jobs.backoff import LONGEST_WAIT_S as LONGEST_DELAY_S
from queueapp.jobs.failure import MESSAGE_LIMIT, NAME_LIMIT, TRACEBACK_LIMIT, printable
from queueapp.jobs.names import KIND

MOST_KINDS = 100
MOST_LEASES = 100
MOST_ITEMS = 500
LONGEST_LEASE_S = 86_400
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


def _visible(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _note(text: str) -> str:
    return text[:NOTE_LIMIT]


Kind = Annotated[str, Field(pattern=f"^{KIND.pattern}$")]
Seconds = Annotated[float, Field(ge=1, le=LONGEST_LEASE_S)]
Delay = Annotated[float, Field(ge=0, le=LONGEST_DELAY_S)]
# What became of work is never refused for its text: as with our own workers it is cut, and what
# cannot be stored is made visible. The limit of a body bounds it.
Told = Annotated[str, BeforeValidator(_visible)]


class LeaseBody(_Body):
    """Which jobs a worker would run now, and on what terms; null is no value."""

    kinds: Annotated[
        list[Kind],
        Field(min_length=1, max_length=MOST_KINDS, description="The kinds that this worker runs."),
        AfterValidator(_each_once),
    ]
    max: Annotated[
        int,
        Field(ge=1, le=MOST_LEASES, description="Most jobs to lease: no more than begin at once."),
        BeforeValidator(_integral),
    ] = 1
    lease: Annotated[
        Seconds, _says("Seconds until the lease ends unless renewed; else `QUEUE_LEASE`.")
    ] = _NOT_SENT
    wait: Annotated[
        float,
        Field(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for a job if none is due."),
    ] = 0.0


class Lease(_Body):
    """A lease by what proves it."""

    id: Annotated[
        int, Field(ge=1, lt=2**63, description="The job's number."), BeforeValidator(_integral)
    ]
    token: Annotated[UUID, BeforeValidator(_uuid), _says("What proves the lease.")]


class RenewBody(_Body):
    """The leases that a worker has and wants to keep."""

    items: Annotated[
        list[Lease],
        Field(min_length=1, max_length=MOST_ITEMS, description="The leases, each once."),
        AfterValidator(_each_once),
    ]
    lease: Annotated[
        Seconds, _says("Seconds from now until they end unless renewed; else `QUEUE_LEASE`.")
    ] = _NOT_SENT


class Report(Lease):
    """How far one job is."""

    percent: Annotated[
        int, Field(ge=0, le=100, description="How far it is."), BeforeValidator(_integral)
    ]
    note: Annotated[
        Told,
        Field(description=f"The same in words, cut at {NOTE_LIMIT} characters."),
        AfterValidator(_note),
    ] = _NOT_SENT


class ProgressBody(_Body):
    """How far jobs are."""

    items: Annotated[
        list[Report],
        Field(min_length=1, max_length=MOST_ITEMS, description="The jobs, each once."),
        AfterValidator(_each_once),
    ]


class Succeed(Lease):
    """The work is done."""

    verb: Annotated[Literal["succeed"], _says("How it ended.")]
    result: Annotated[
        Any, _says("Any JSON; above 256 KiB or 200 levels it is left out, and the job succeeds.")
    ] = None


class Fail(Lease):
    """The work failed: the attempt is used up."""

    verb: Annotated[Literal["fail"], _says("How it ended.")]
    error_class: Annotated[
        Told, _says(f"The class of the failure, cut at {NAME_LIMIT} characters.")
    ] = "Error"
    error_message: Annotated[
        Told, _says(f"Its text, cut in the middle to {MESSAGE_LIMIT // 1024} KiB.")
    ] = ""
    traceback: Annotated[
        Told, _says(f"Where it came from, cut in the middle to {TRACEBACK_LIMIT // 1024} KiB.")
    ] = _NOT_SENT
    permanent: Annotated[bool, _says("Another attempt would fail as well: none is made.")] = False
    retry_after: Annotated[
        Delay, _says("Seconds until the next attempt; else the backoff decides.")
    ] = _NOT_SENT


class Defer(Lease):
    """The work has to wait: the attempt is given back."""

    verb: Annotated[Literal["defer"], _says("How it ended.")]
    delay: Annotated[Delay, _says("Seconds until it is due again.")]


class Release(Lease):
    """Somebody else shall do the work, now: the attempt is given back."""

    verb: Annotated[Literal["release"], _says("How it ended.")]


End = Annotated[Succeed | Fail | Defer | Release, Field(discriminator="verb")]


class SettleBody(_Body):
    """What has become of jobs."""

    items: Annotated[
        list[End],
        Field(min_length=1, max_length=MOST_ITEMS, description="The jobs, each once."),
        AfterValidator(_each_once),
    ]
