"""``flask verdict``: is the queue well? For people, and by its exit status for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from flask import Flask
from flask.cli import with_appcontext

from queueapp import judgement
from queueapp.api.describe import json_text
from queueapp.api.verdict import described
from queueapp.application import this_app
from queueapp.commands import layout


def init_app(app: Flask) -> None:
    """Register the command with ``app``."""
    app.cli.add_command(verdict)


@click.command("verdict")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as the API answers.")
@with_appcontext
def verdict(as_json: bool) -> None:
    """Say whether the queue is well, with the evidence and the next step.

    Exits 0 when it is healthy, 1 when something is amber, 2 when it is red, and 3 when that is not
    known, as when the database does not answer.

    \b
    Examples:
      flask verdict
      flask verdict --json | jq -r .rule
      flask verdict > /dev/null || page-somebody
    """
    app = this_app()
    look = judgement.look_or_say_why(app)
    answer = described(look)
    click.echo(json_text(answer) if as_json else "\n".join(_lines(answer)))
    raise SystemExit(look.verdict.level.number)


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    yield _shown(f"{answer['level'].upper()} {_told(answer)}")
    if answer["since"]:
        yield f"Since: {answer['since']}"
    if answer["level"] != "green":
        yield _shown(f"Next: {_step(answer)}")
    for one in answer["also"]:
        since = f"Since {one['since']}. " if one["since"] else ""
        yield _shown(f"Also: {one['level']} {_told(one)} {since}Next: {_step(one)}")
    for note in answer["notes"]:
        yield _shown(f"Note: {note}")


def _told(one: dict[str, Any]) -> str:
    return f"{one['title']}: {one['sentence']}"


def _step(one: dict[str, Any]) -> str:
    return f"{one['next_step']}{' ' + one['next_path'] if one['next_path'] else ''}"


def _shown(text: str) -> str:
    return layout.one_line(text).replace("\n", " ")
