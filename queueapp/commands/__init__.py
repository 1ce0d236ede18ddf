"""The command line: one module for each command.

Their failures are reported here, in one place: one line that says what to do, never a traceback
for what a person can mend.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click
import psycopg
from flask import Flask
from sqlalchemy.exc import SQLAlchemyError

from queueapp.commands import audit, chaos, demo, jobs, purge, work
from queueapp.error_handlers import deliberate
from queueapp.errors import QueueError
from queueapp.local_postgres import LocalPostgresUnavailable

_REPORTED = (QueueError, SQLAlchemyError, psycopg.Error, LocalPostgresUnavailable)
# The groups are made once, applications may be made often.
_reporting_already: set[Callable[..., Any]] = set()


def init_app(app: Flask) -> None:
    """Register every command with ``app``."""
    for module in (work, jobs, audit, purge, demo, chaos):
        module.init_app(app)
    _report_in_one_line(app.cli)


def _report_in_one_line(command: click.Command) -> None:
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _report_in_one_line(below)
    elif command.callback is not None and command.callback not in _reporting_already:
        command.callback = _reporting(command.callback)
        _reporting_already.add(command.callback)


def _reporting(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return callback(*args, **kwargs)
        except _REPORTED as error:
            known = deliberate(error)
            if known is None:
                raise
            raise click.ClickException(one_line(known) + _cause(error)) from None

    return run


def one_line(error: QueueError) -> str:
    """The message, or all the problems that it stands for."""
    problems = error.context.get("errors", [])
    if len(problems) < 2:
        return error.message
    return "; ".join(f"{one['pointer']} {one['detail']}".strip() for one in problems)


def _cause(error: Exception) -> str:
    """Why there is no connection, in the words of the database's own library."""
    origin = getattr(error, "orig", error)
    if isinstance(origin, psycopg.OperationalError) and origin.sqlstate is None:
        return f" ({str(origin).strip().splitlines()[0]})"
    return ""
