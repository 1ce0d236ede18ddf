"""``flask jobs list``: the list of the console in a terminal, narrowed by the same filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click
from flask.cli import with_appcontext
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict

from queueapp.api.describe import json_text, listed_job
from queueapp.commands import layout
from queueapp.commands.parameters import PRIORITY, JobId, Text
from queueapp.console.criteria import PAYLOAD, read_criteria
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.queries import JobFilter, View
from queueapp.jobs.status import Status
from queueapp.redaction import Redaction


@click.command(name="list")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    help="One or more, repeated or with commas; or due, scheduled, retrying.",
)
@click.option("--kind", type=Text(), help="Only jobs of this kind.")
@click.option("--producer", type=Text(), help="Only jobs of this producer.")
@click.option("--priority", type=PRIORITY, metavar="N", help="Only jobs of this priority.")
@click.option("--since", type=Text(), help="Only jobs created then or later: -2h, -7d, or a time.")
@click.option("--until", type=Text(), help="Only jobs created before then.")
@click.option("--attempts", type=Text(), help="Only jobs begun so often: 3, or '>=3' in quotes.")
@click.option("--worker", type=Text(), help="Only jobs that it runs now: see locked_by in show.")
@click.option(
    "--payload",
    type=Text(),
    multiple=True,
    help="Only jobs with this in their payload: order.id=42. Repeated: with all of them.",
)
@click.option(
    "--fingerprint", type=Text(), help="Only failures alike: see error_fingerprint in show."
)
@click.option("--key", type=Text(), help="Only jobs with this idempotency key.")
@click.option("--operation", type=Text(), help="Only jobs that this operation has changed.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N",
              help="How many at most.")  # fmt: skip
@click.option("--before", type=JobId(), help="Go on below this id.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@with_appcontext
def list_jobs(
    statuses: Sequence[str],
    payload: Sequence[str],
    limit: int,
    before: int | None,
    as_json: bool,
    **asked: str | int | None,
) -> None:
    """List jobs, newest first.

    The options are the fields of the filter in the console, and mean the same. A time without an
    offset is UTC: "2026-11-29 02:30", or 2026-11-29T03:30:00+01:00. No index knows payloads,
    attempts and some others: a page then comes from the newest jobs, and says with which --before
    to look further.

    \b
    Examples:
      flask jobs list --status failed --kind http.request
      flask jobs list --status queued,running --limit 10
      flask jobs list --since -2h --attempts '>=3' --json | jq .id
      flask jobs list --payload order.id=42 --status failed
      flask jobs list --status running --worker web-1:4242:9f3c2a
    """
    session = db.session()
    where = _where(session, statuses, payload, asked)
    page = queries.list_jobs(session, where, before=before, limit=limit)
    if as_json:
        lines = [json_text(listed_job(job)) for job in page.rows]
    else:
        lines = list(layout.table(page.rows)) if page.rows else ["no jobs"]
    click.echo("\n".join(lines), nl=bool(lines))
    if page.older is not None:
        searched = f" (looked at the newest {queries.SCAN_LIMIT} only)" if page.cut else ""
        click.echo(f"more{searched}: --before {page.older}", err=True)


def _where(
    session: Session,
    statuses: Sequence[str],
    payload: Sequence[str],
    asked: Mapping[str, str | int | None],
) -> JobFilter:
    """The filter of the console that the options stand for. Raises BadParameter."""
    given = [("status", name) for name in _names_of(statuses)]
    given += [(name, str(value)) for name, value in asked.items() if value is not None]
    given += [(PAYLOAD, field) for field in payload]
    for name, value in given:
        # Who means one kind and names none by mistake must not be given all of them.
        if not value.strip():
            raise click.BadParameter("it is empty", param_hint=f"--{name}")
    # Whoever is at this command line has the database: nothing of it is hidden.
    criteria = read_criteria(MultiDict(given), queries.database_now(session), Redaction())
    for problem in criteria.problems:
        field = getattr(problem, "field", "") or "status"
        raise click.BadParameter(str(problem).rstrip("."), param_hint=f"--{field}")
    return criteria.where


def _names_of(statuses: Sequence[str]) -> Iterator[str]:
    known = [*Status, *View]
    for name in (name.strip() for text in statuses for name in text.split(",")):
        if name not in known:
            said = f"{name!r} is no status: {', '.join(known)}"
            raise click.BadParameter(said, param_hint="--status")
        yield name
