"""The verbs that may be done to many jobs at once, and which jobs each can move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, func

from queueapp.jobs import transitions
from queueapp.jobs.models import Job
from queueapp.jobs.status import Status, Verb, sources
from queueapp.jobs.transitions import PersonVerb


@dataclass(frozen=True)
class Bulk:
    """A verb over many jobs.

    ``statuses`` and ``only``: which jobs it can move; ``partly``: the statuses of which ``only``
    leaves some alone. ``how``: what it is always told.
    """

    move: PersonVerb
    statuses: tuple[Status, ...]
    only: tuple[ColumnElement[bool], ...] = ()
    partly: tuple[Status, ...] = ()
    how: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


# What cannot be undone is planned and applied by admins alone, however few jobs it is for.
FOR_ADMINS = ("purge",)

# By the names of the API. Release is not among them: it names the claim of one job.
VERBS: dict[str, Bulk] = {
    "cancel": Bulk(
        transitions.cancel,
        sources(Verb.CANCEL),
        (Job.cancel_requested_at.is_(None),),
        (Status.RUNNING,),
    ),
    "retry": Bulk(transitions.requeue, sources(Verb.REQUEUE)),
    "hold": Bulk(transitions.hold, sources(Verb.HOLD)),
    "unhold": Bulk(
        transitions.unhold,
        sources(Verb.UNHOLD),
        (Job.held_for == "job",),
        (Status.HELD,),
        {"held_for": "job"},
    ),
    "reschedule": Bulk(
        transitions.reschedule, sources(Verb.RESCHEDULE), how={"only_if_changed": True}
    ),
    "run-now": Bulk(
        transitions.run_now,
        (Status.QUEUED,),
        (Job.available_at > func.statement_timestamp(),),
        (Status.QUEUED,),
    ),
    "purge": Bulk(transitions.purge, sources(Verb.PURGE)),
}
