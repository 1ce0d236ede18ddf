"""What the routes of leases and of the why-answer say: see ``answers``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from queueapp.api.answers import _NOT_ALWAYS, _says
from queueapp.api.model import Model
from queueapp.jobs.status import Status


class LeasedJob(Model):
    """A job under a lease, with all that running it takes."""

    id: Annotated[int, _says("Its number.")]
    token: Annotated[UUID, _says("What proves the lease: show it with everything you say.")]
    kind: Annotated[str, _says("What is to be done.")]
    payload: Annotated[Any, _says("With which arguments.")]
    priority: Annotated[int, _says("Higher runs first.")]
    attempt: Annotated[int, Field(ge=1, description="Which attempt, from 1.")]
    max_attempts: Annotated[int, _says("How many attempts it has.")]
    timeout: Annotated[float, _says("Seconds for this attempt; 0: no limit.")]
    lease: Annotated[float, _says("Seconds until the lease ends unless renewed.")]


class LeasedJobs(Model):
    """The jobs that are yours now, in the order of the queue; none: nothing is due."""

    items: Annotated[list[LeasedJob], _says("The jobs.")]


class Renewed(Model):
    """What has become of one lease."""

    id: Annotated[int, _says("The job.")]
    outcome: Annotated[
        Literal["renewed", "cancel", "timeout", "busy", "lost"],
        _says("renewed: go on; cancel: renewed, and the job is to stop; timeout, lost: stop."),
    ]


class RenewedLeases(Model):
    """What has become of the leases, in their order."""

    items: Annotated[list[Renewed], _says("One for each lease.")]


class Reported(Model):
    """What has become of one report."""

    id: Annotated[int, _says("The job.")]
    outcome: Annotated[
        Literal["accepted", "busy", "lost"], _says("busy: somebody has its row locked.")
    ]


class ReportedProgress(Model):
    """What has become of the reports, in their order."""

    items: Annotated[list[Reported], _says("One for each report.")]


class Settled(Model):
    """What has become of one job."""

    id: Annotated[int, _says("The job.")]
    outcome: Annotated[
        Literal["accepted", "repeat", "busy", "lost"],
        _says("repeat: said before; busy: send it again soon; lost: somebody else has the job."),
    ]
    status: Annotated[Status, _says("If accepted: as it is now; of a repeat: as it was then.")] = (
        _NOT_ALWAYS
    )


class SettledJobs(Model):
    """What has become of the jobs, in their order."""

    items: Annotated[list[Settled], _says("One for each job.")]


class AlsoInTheWay(Model):
    """What stands in a job's way as well."""

    rule: Annotated[str, _says("The code of the rule.")]
    sentence: Annotated[str, _says("The same in words.")]


class WhyAnswer(Model):
    """Why a job stands where it does."""

    job_id: Annotated[int, _says("The job.")]
    status: Annotated[Status, _says("Where it stands.")]
    rule: Annotated[str, _says("The code of the answer: never changes its meaning; more may come.")]
    sentence: Annotated[str, _says("The answer in words, which may be reworded.")]
    next_step: Annotated[str, _says("What to do about it, in words.")]
    evidence: Annotated[dict[str, Any], _says("What it was found by; the fields are the rule's.")]
    also: Annotated[list[AlsoInTheWay], _says("What stands in its way as well.")]
    as_of: Annotated[datetime, _says("The database's clock.")]
