"""``flask system``: how well the database serves the queue, in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click
from flask import Flask, current_app
from flask.cli import with_appcontext

from queueapp.api.describe import json_text
from queueapp.api.system import described
from queueapp.checkup import read_system
from queueapp.commands import layout
from queueapp.jobs.system.told import Finding, Table, Tone

_WIDTH = 100


def init_app(app: Flask) -> None:
    """Register the command."""
    app.cli.add_command(system)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as the API answers.")
@click.option("--all", "whole", is_flag=True, help="The evidence of what is well, too.")
@with_appcontext
def system(as_json: bool, whole: bool) -> None:
    """Say how well the database serves the queue, and what to do.

    Exits 1 while anything is bad. With the rights of whoever runs it: the texts of others' queries
    are shown.

    \b
    Examples:
      flask system
      flask system --json | jq '.readings[] | select(.tone == "bad")'
    """
    found = read_system(current_app, sees_queries=True)
    if as_json:
        click.echo(json_text(described(found)))
    else:
        click.echo("\n".join(line for one in found.findings for line in _lines(one, whole=whole)))
    if found.counts[Tone.BAD]:
        raise SystemExit(1)


def _lines(finding: Finding, *, whole: bool) -> Iterator[str]:
    said = finding.said
    head = f"{said.tone:<8} {finding.title}: "
    first, *more = textwrap.wrap(head + _shown(said.sentence), _WIDTH, subsequent_indent=" " * 9)
    yield first
    yield from more
    if said.next_step:
        yield f"{'':8} Next: {_shown(f'{said.next_step} {said.command}'.strip())}"
    if said.table and (whole or said.tone in (Tone.BAD, Tone.CAREFUL)):
        yield from _table(said.table)


def _table(table: Table) -> Iterator[str]:
    heads = [column.name.upper() for column in table.columns]
    rows = [heads, *([_shown(cell) for cell in row] for row in table.rows)]
    right = [place for place, column in enumerate(table.columns) if column.is_number]
    yield from (f"{'':10}{line}" for line in layout.aligned(rows, right))


def _shown(text: str) -> str:
    return layout.one_line(text).replace("\n", " ")
