"""Where a drill is: its address in a file that only its owner reads, and what if it goes away."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import psycopg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

# Classes of SQLSTATE: the connection broke, the server ends sessions, the database is not there.
_GONE = ("08", "57P", "3D")


@contextmanager
def written_down(url: str, folder: Path) -> Iterator[Path]:
    """A file with the whole address, password and all, for as long as this lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "address"
    path.unlink(missing_ok=True)
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(plain)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def printed(url: str, path: Path) -> str:
    """What is printed of the address: the commands that need it whole take it from ``path``."""
    hidden = make_url(url).set(drivername="postgresql").render_as_string(hide_password=True)
    whole = f'DATABASE_URL="$(cat {shlex.quote(str(path))})"'
    return (
        f"  Database  {hidden}\n"
        f"            (whole, with its password, in {path})\n"
        f"  Worker    {whole} flask work\n"
        f"  Verdict   {whole} flask verdict"
    )


@contextmanager
def told_if_gone() -> Iterator[None]:
    """Raise ClickException where the database of the drill goes away under it."""
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        if not _is_gone(error):
            raise
        raise click.ClickException(
            "the database of the incident went away while it ran: it was stopped, restarted or"
            " removed. The incident is over. What is left of it in there goes away when the next"
            " one begins; in the database of the demo or of DATABASE_URL, with --clear"
        ) from error


def _is_gone(error: DBAPIError | psycopg.Error) -> bool:
    origin = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(origin, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return origin.sqlstate is None or origin.sqlstate.startswith(_GONE)
