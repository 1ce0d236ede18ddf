"""What a person sees meanwhile, on standard error: a bar for each measurement."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from queueapp.commands.bench.producers import Advance


@contextmanager
def bar(label: str, length: int) -> Iterator[Advance]:
    """A bar of so many jobs."""
    with click.progressbar(length=length, label=f"  {label:<24}", file=sys.stderr) as shown:
        yield shown.update


def line(text: str) -> None:
    """Say something."""
    click.echo(text, err=True)
