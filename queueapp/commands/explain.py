"""``flask jobs why``: the sentence and its evidence in a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from flask import current_app
from flask.cli import with_appcontext

from queueapp.api.describe import json_text
from queueapp.api.describe import why as described
from queueapp.commands import layout
from queueapp.commands.parameters import JobId
from queueapp.extensions import db
from queueapp.jobs import queries
from queueapp.jobs.why import why as why_of


@click.command()
@click.argument("job_id", type=JobId())
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as the API answers.")
@with_appcontext
def why(job_id: int, as_json: bool) -> None:
    """Say why a job stands where it does, with the evidence.

    \b
    Examples:
      flask jobs why 42
      flask jobs why 42 --json | jq -r .rule
    """
    session = db.session()
    queries.bound_reads(session)
    settings = current_app.extensions["queue_settings"]
    found = why_of(session, job_id, job_timeout_s=settings.job_timeout, pooled=settings.pooler)
    answer = described(found)
    click.echo(json_text(answer) if as_json else "\n".join(_lines(answer)))


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    yield _shown(answer["sentence"])
    yield from (f"Also: {_shown(one['sentence'])}" for one in answer["also"])
    yield f"Next: {answer['next_step']}"
    yield ""
    evidence = {"rule": answer["rule"], "as_of": answer["as_of"], **answer["evidence"]}
    width = max(map(len, evidence))
    for name, value in evidence.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"  {name:<{width}}  {_shown(text)}"


def _shown(text: str) -> str:
    return layout.one_line(text).replace("\n", " ")
