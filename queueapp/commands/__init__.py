"""The command line: one module for each command.

Their failures are reported here, in one place: one line that says what to do, never a traceback
for what a person can mend. Ctrl-C ends a command without a word, unless it has one to say itself.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import click
import psycopg
from flask import Flask
from flask.cli import ScriptInfo
from sqlalchemy.exc import SQLAlchemyError

from queueapp.commands import (
    audit,
    bench,
    chaos,
    demo,
    jobs,
    purge,
    system,
    token,
    user,
    verdict,
    work,
)
from queueapp.commands.interruption import INTERRUPTED
from queueapp.connections import address_of, take_role
from queueapp.connections.bounds import Role
from queueapp.connections.refusals import refusal
from queueapp.error_handlers import deliberate
from queueapp.errors import DatabaseUnavailable, QueueError, SchemaMismatch, SettingError
from queueapp.local_postgres import LocalPostgresUnavailable
from queueapp.worker.supervision.statuses import UNAVAILABLE, UNUSABLE

_REPORTED = (QueueError, SQLAlchemyError, psycopg.Error, LocalPostgresUnavailable)
# The groups are made once, applications may be made often.
_reporting_already: set[Callable[..., Any]] = set()


class _Unusable(click.ClickException):
    exit_code = UNUSABLE


class _Unavailable(click.ClickException):
    exit_code = UNAVAILABLE


# Whoever starts commands again may want to know whether that can help.
_REFUSALS = {
    SettingError.code: _Unusable,
    SchemaMismatch.code: _Unusable,
    DatabaseUnavailable.code: _Unavailable,
}


def init_app(app: Flask) -> None:
    """Register every command with ``app``."""
    for module in (work, jobs, verdict, system, audit, purge, token, user, demo, chaos, bench):
        module.init_app(app)
    _report_in_one_line(app.cli)


def _report_in_one_line(command: click.Command) -> None:
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _report_in_one_line(below)
    if command.callback is not None and command.callback not in _reporting_already:
        command.callback = _reporting(command.callback)
        _reporting_already.add(command.callback)


def _reporting(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            _be_patient()
            return callback(*args, **kwargs)
        except KeyboardInterrupt:
            # Whoever pressed it knows; a terminal has the line that it broke off in ended.
            click.echo(nl=sys.stderr.isatty(), err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except _REPORTED as error:
            if said := refusal(error, _engine_url()):
                raise _Unusable(said) from None
            known = deliberate(error)
            if known is None:
                raise
            kind = _REFUSALS.get(known.code, click.ClickException)
            raise kind(one_line(known) + _cause(error)) from None

    return run


def _app() -> Flask | None:
    script = click.get_current_context().find_object(ScriptInfo)
    return None if script is None else script.load_app()


def _be_patient() -> None:
    """What a person asks of the command line may take longer than a page may."""
    if (app := _app()) is not None:
        take_role(app, Role.COMMAND)


def _engine_url() -> str:
    app = _app()
    return "" if app is None else address_of(app).engine_url


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
