"""``flask jobs``: enqueue, look at, move and take back jobs from a terminal."""

from __future__ import annotations

from typing import Any

import click
from flask import Flask, current_app
from flask.cli import AppGroup

from queueapp import handlers
from queueapp.api.describe import event, json_text, whole_job
from queueapp.at_once import at_once
from queueapp.commands import layout, moves
from queueapp.commands.enqueue_file import enqueue_file
from queueapp.commands.explain import why
from queueapp.commands.job_list import list_jobs
from queueapp.commands.parameters import PRIORITY, Duration, Instant, JobId, Payload, Text, actor
from queueapp.errors import UnknownKind
from queueapp.extensions import db
from queueapp.jobs import queries, transitions
from queueapp.jobs.backoff import Backoff

_EVENTS_SHOWN = 200

group = AppGroup("jobs", help="Enqueue, list, show, move and take back jobs.")
group.add_command(why)
group.add_command(list_jobs)
for one in moves.COMMANDS:
    group.add_command(one)


def init_app(app: Flask) -> None:
    """Register the group with ``app``."""
    app.cli.add_command(group)


@group.command()
@click.argument("kind", type=Text(), required=False)
@click.argument("payload", type=Payload(), required=False)
@click.option("--priority", type=PRIORITY, metavar="N", help="Higher runs first; 0 unless given.")
@click.option("--delay", type=Duration(), help="Run no earlier than this from now: 90, 5m, 1h.")
@click.option("--at", "available_at", type=Instant(), help="Run no earlier than this moment.")
@click.option("--max-attempts", type=int, metavar="N", help="How often the job may be tried.")
@click.option("--timeout", type=Duration(), help="Longest run of one attempt; 0 for no limit.")
@click.option(
    "--key", type=Text(), help="Idempotency key: the same request with it creates no second job."
)
@click.option("--from", "path", metavar="FILE", help="Enqueue the lines of FILE, - for stdin.")
@click.option("--skip", type=click.IntRange(min=0), metavar="N",
              help="With --from: begin after so many lines.")  # fmt: skip
@click.option("--partial", is_flag=True, help="With --from: tell bad lines and go on.")
def enqueue(
    kind: str | None,
    payload: Any,
    timeout: float | None,
    path: str | None,
    skip: int | None,
    partial: bool,
    **options: Any,
) -> None:
    """Create a job of KIND and print its id.

    PAYLOAD is a JSON object, @file, or - for standard input.

    With --from, each line of FILE is a job with the fields of the API: {"kind": …, "payload": …,
    "priority": …, "idempotency_key": …}. A file is checked as a whole first, and nothing is
    written if a line is bad; standard input can be read only once, so what came before the bad
    line's portion stays. It is written in portions of 5,000 lines, each committed by itself. If
    the command stops in between, it says with which --skip to go on; with a key in each line it may
    simply be run again.

    \b
    Examples:
      flask jobs enqueue demo.echo '{"message": "hello"}'
      flask jobs enqueue demo.sleep '{"seconds": 30}' --priority 10 --key nightly
      flask jobs enqueue demo.echo @payload.json --at 2030-01-31T08:00:00Z
      flask jobs enqueue --from jobs.ndjson
      zcat jobs.ndjson.gz | flask jobs enqueue --from - --partial

    \b
    Exit statuses: 0; 1 refused, with --partial some lines; 130 stopped with Ctrl-C, which lets
    the portion end that is being written.
    """
    sent = {name: value for name, value in options.items() if value is not None}
    if path is not None:
        options = {f"--{name.replace('_', '-')}": value for name, value in sent.items()}
        options["--at"] = options.pop("--available-at", None)
        _refuse_mixing({"KIND": kind, "PAYLOAD": payload, "--timeout": timeout, **options})
        enqueue_file(path, skip=skip or 0, partial=partial)
        return
    if skip is not None or partial:
        raise click.UsageError("--skip and --partial belong to --from")
    if kind is None:
        raise click.UsageError("Missing argument 'KIND', or --from FILE.")
    if timeout is not None:
        sent["timeout"] = _whole_seconds(timeout)
    me = actor()
    try:
        with at_once() as database:
            made = handlers.enqueue(
                database, kind, payload, **sent, producer=me, actor=me, via="cli"
            )
    except UnknownKind as error:
        known = ", ".join(one.kind for one in handlers.kinds())
        raise click.ClickException(f"{error.message}; kinds here: {known}") from None
    known_already = "" if made.outcome == "new" else " was there already: same key, same request"
    click.echo(f"job {made.id}{known_already or ' enqueued'}")


@group.command()
@click.argument("job_id", type=JobId())
@click.option("--traceback", is_flag=True, help="Add the traceback of the last failure.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, its events inside.")
def show(job_id: int, traceback: bool, as_json: bool) -> None:
    """Show a job whole, and what has happened to it.

    \b
    Examples:
      flask jobs show 42
      flask jobs show 42 --traceback
      flask jobs show 42 --json | jq .payload
    """
    session = db.session()
    job = queries.get_job(session, job_id)
    if as_json:
        lines = queries.events_of(session, job_id, limit=10_000)
        click.echo(json_text({**whole_job(job), "events": [event(line) for line in lines]}))
        return
    events = queries.latest_events_of(session, job_id, limit=_EVENTS_SHOWN)
    left_out = "" if len(events) < _EVENTS_SHOWN else f" (the newest {_EVENTS_SHOWN})"
    click.echo("\n".join([*layout.whole(job), "", f"events{left_out}"]))
    click.echo("\n".join(f"  {line}" for line in layout.time_line(events)))
    if traceback:
        failure = queries.last_failure(session, job_id)
        click.echo("\n" + layout.one_line(failure.traceback if failure else "no failure yet"))


@group.command()
def sweep() -> None:
    """Take back jobs whose worker is gone, where no worker is left to do so.

    Every running `flask work` sweeps, the ones without threads as well; this does it once. Only
    leases that ran out are taken: a worker that lives renews its own.

    \b
    Examples:
      flask jobs sweep
    """
    settings = current_app.extensions["queue_settings"]
    session, taken = db.session(), 0
    while True:
        batch = transitions.expire(
            session,
            actor=actor(),
            backoff=Backoff(settings.backoff_base, settings.backoff_cap, settings.max_handbacks),
            job_timeout_s=settings.job_timeout,
        )
        session.commit()
        for lease in batch:
            click.echo(f"job {lease.id} {lease.kind}: lost by {lease.holder} → {lease.status}")
        taken += len(batch)
        if not batch:
            break
    click.echo(f"{taken} jobs taken back")


def _refuse_mixing(given: dict[str, Any]) -> None:
    names = [name for name, value in given.items() if value is not None]
    if names:
        shown = ", ".join(names)
        raise click.UsageError(f"--from takes each job's fields from its line: leave out {shown}")


def _whole_seconds(seconds: float) -> int:
    if not seconds.is_integer():
        raise click.BadParameter("give whole seconds", param_hint="--timeout")
    return int(seconds)
