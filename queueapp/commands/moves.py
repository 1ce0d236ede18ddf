"""``flask jobs cancel`` and the other verbs of people, over one job or several; and clone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click
from flask.cli import with_appcontext

from queueapp import handlers
from queueapp.commands.parameters import PRIORITY, Duration, Instant, JobId, Text, Why, actor
from queueapp.errors import QueueError
from queueapp.extensions import db
from queueapp.jobs import transitions
from queueapp.jobs.transitions import By, Moved

Command = TypeVar("Command", bound=Callable[..., Any])

_REASON = click.option("--reason", type=Text(), help="Why; the ledger keeps it.")
_WHY = click.option(
    "--reason", type=Why(), required=True, help="Why; whoever finds them held sees this."
)


def _over_jobs(command: Command) -> Command:
    jobs = click.argument("job_ids", type=JobId(), nargs=-1, required=True)
    return jobs(_REASON(command))


@click.command()
@_over_jobs
@with_appcontext
def cancel(job_ids: Sequence[int], reason: str | None) -> None:
    """Cancel waiting jobs; ask the handlers of running ones to stop.

    \b
    Examples:
      flask jobs cancel 42
      flask jobs cancel 42 43 44 --reason "sent by mistake"
    """
    _each(lambda i: transitions.one(transitions.cancel, db.session(), i, **_by(reason)), job_ids)


@click.command()
@_over_jobs
@with_appcontext
def retry(job_ids: Sequence[int], reason: str | None) -> None:
    """Let failed or cancelled jobs run again, with all their attempts.

    \b
    Examples:
      flask jobs retry 42 --reason "the provider is back"
      flask jobs list --status failed --json | jq .id | xargs flask jobs retry
    """
    _each(lambda i: transitions.one(transitions.requeue, db.session(), i, **_by(reason)), job_ids)


@click.command()
@click.argument("job_ids", type=JobId(), nargs=-1, required=True)
@_WHY
@with_appcontext
def hold(job_ids: Sequence[int], reason: str) -> None:
    """Park queued jobs until somebody lifts the hold; they keep their place.

    \b
    Examples:
      flask jobs hold 42 --reason "wait for the new address"
    """
    _each(lambda i: transitions.one(transitions.hold, db.session(), i, **_by(reason)), job_ids)


@click.command()
@_over_jobs
@with_appcontext
def unhold(job_ids: Sequence[int], reason: str | None) -> None:
    """Let jobs that were held by themselves go on.

    \b
    Examples:
      flask jobs unhold 42
    """
    how: dict[str, Any] = {**_by(reason), "held_for": "job"}
    _each(lambda i: transitions.one(transitions.unhold, db.session(), i, **how), job_ids)


@click.command()
@_over_jobs
@click.option("--delay", type=Duration(), help="Due this long from now: 90, 5m, 1h; 0 is now.")
@click.option("--at", "available_at", type=Instant(), help="Due at this moment; past: now.")
@click.option("--priority", type=PRIORITY, metavar="N", help="Higher runs first.")
@with_appcontext
def reschedule(
    job_ids: Sequence[int],
    reason: str | None,
    delay: float | None,
    available_at: datetime | None,
    priority: int | None,
) -> None:
    """Change when waiting jobs are due, or their priority.

    \b
    Examples:
      flask jobs reschedule 42 --at 2030-01-31T08:00:00Z --reason "not before the sale"
      flask jobs reschedule 42 43 --delay 10m --priority 5
    """
    if delay is not None and available_at is not None:
        raise click.UsageError("give either --delay or --at")
    if delay is None and available_at is None and priority is None:
        raise click.UsageError("give --delay, --at or --priority")
    how: dict[str, Any] = {
        "delay_s": delay,
        "available_at": available_at,
        "priority": priority,
        "only_if_changed": True,
        **_by(reason),
    }
    _each(
        lambda i: transitions.one_unless_there(transitions.reschedule, db.session(), i, **how),
        job_ids,
    )


@click.command("run-now")
@_over_jobs
@with_appcontext
def run_now(job_ids: Sequence[int], reason: str | None) -> None:
    """Make queued jobs due that wait for their time; their priority stays.

    \b
    Examples:
      flask jobs run-now 42
    """
    by = _by(reason)
    _each(
        lambda i: transitions.one_unless_there(transitions.run_now, db.session(), i, **by), job_ids
    )


@click.command()
@click.argument("job_id", type=JobId())
@click.option(
    "--claimed-at", type=Instant(), required=True, help="The claim that you saw: see show --json."
)
@_REASON
@with_appcontext
def release(job_id: int, claimed_at: datetime, reason: str | None) -> None:
    """Take a running job from a holder that is gone; if it is at work, the job runs twice.

    \b
    Examples:
      seen=$(flask jobs show 42 --json | jq -r .claimed_at)
      flask jobs release 42 --claimed-at "$seen" --reason "its machine burnt down"
    """
    by = _by(reason)
    _each(
        lambda i: transitions.release_claim(db.session(), i, claimed_at=claimed_at, **by), [job_id]
    )


@click.command()
@_over_jobs
@with_appcontext
def clone(job_ids: Sequence[int], reason: str | None) -> None:
    """Make a new job of what each was asked to do; the old one stays as it is.

    The new one has its kind, payload, priority, limits and producer, is due now, and has no
    idempotency key: each call makes one more. Both histories name the other job. To give a failed
    job another life instead of a copy, retry it.

    \b
    Examples:
      flask jobs clone 42 --reason "the mail was lost on its way"
    """
    by = _by(reason)
    _each(
        lambda i: handlers.clone(db.session(), i, **by),
        job_ids,
        lambda made: f"cloned as job {made.id}",
    )


COMMANDS = (cancel, retry, hold, unhold, reschedule, run_now, release, clone)


def _by(reason: str | None) -> By:
    return {"actor": actor(), "reason": reason, "via": "cli"}


def _told(moved: Moved | None) -> str:
    if moved is None:
        return "stands there already"
    return f"{moved.event}: {moved.from_status} → {moved.to_status}"


def _each(
    move: Callable[[int], Any], job_ids: Sequence[int], told: Callable[[Any], str] = _told
) -> None:
    """Move the jobs one by one: a refusal is told and does not stop the others."""
    session, refused = db.session(), 0
    for job_id in job_ids:
        try:
            moved = move(job_id)
        except QueueError as error:
            session.rollback()
            click.echo(f"Error: {error.message}", err=True)
            refused += 1
        else:
            session.commit()
            click.echo(f"job {job_id} {told(moved)}")
    if refused:
        raise click.exceptions.Exit(1)
