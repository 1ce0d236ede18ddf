"""The throw-away schema, or database, of one run: made, kept apart from everything else, removed.

Its search path is the throw-away schema alone, so no statement can reach a table of anybody else.
Its name says when it was made; whoever runs holds a lock by that name, so a leftover is told from a
run that goes on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import LiteralString

import click
import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from queueapp.connections import Address, connect
from queueapp.connections.bounded import BoundedConnection
from queueapp.connections.bounds import Role
from queueapp.errors import SettingError

PREFIX = "queueapp_bench_"
# Processes of a killed run are gone within seconds, and until then they may still write.
LEFT_AFTER_S = 60.0
_NAMED = f"^{PREFIX}[0-9]{{14}}_[0-9a-f]{{6}}$"
_TRIES = 5

_MAY_SCHEMA = """
SELECT has_database_privilege(current_database(), 'CREATE') AS may,
  current_user AS role, current_database() AS database
"""
_MAY_DATABASE = """
SELECT rolcreatedb OR rolsuper AS may, current_user AS role, current_database() AS database
FROM pg_roles WHERE rolname = current_user
"""
_NOW = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISS')"
_LOCK = "SELECT pg_advisory_lock(hashtextextended(%s, 0))"
_TRY_LOCK = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"

_LEFT = """
SELECT what, name, extract(epoch FROM clock_timestamp()
  - to_timestamp(substring(name FROM '[0-9]{14}') || '+00', 'YYYYMMDDHH24MISSTZH'))::float8 AS age
FROM (SELECT 'schema' AS what, nspname::text AS name FROM pg_namespace
      UNION ALL SELECT 'database', datname::text FROM pg_database) AS there
WHERE name ~ %s ORDER BY name
"""

_DROPS: dict[str, LiteralString] = {
    "schema": "DROP SCHEMA IF EXISTS {} CASCADE",
    "database": "DROP DATABASE IF EXISTS {}",
}


@dataclass(frozen=True)
class Place:
    """Where a run happens. ``what`` is schema or database, ``inside`` the database it was asked
    for, ``address`` how this program and its workers reach it, ``outside`` the user's own.
    """

    what: str
    name: str
    role: str
    inside: str
    address: Address
    outside: Address
    guard: BoundedConnection

    @property
    def url(self) -> str:
        """The address as a setting."""
        return self.address.settings.database_url


def refuse_what_cannot_be(address: Address) -> None:
    """Raise SettingError where no connection could keep the search path."""
    if address.settings.is_sqlite:
        raise SettingError(
            "flask bench measures PostgreSQL: on SQLite there are no schemas to work aside in;"
            " name a PostgreSQL in DATABASE_URL",
            setting="DATABASE_URL",
        )
    if address.settings.pooler:
        raise SettingError(
            "flask bench needs the server's own address: behind a transaction pooler no search path"
            " is kept; run it with QUEUE_POOLER=0 and DATABASE_URL past the pooler",
            setting="QUEUE_POOLER",
        )


@contextmanager
def throw_away(
    address: Address, home: Path, *, database: bool, announce: Callable[[Place], None]
) -> Iterator[Place]:
    """Make the place, after ``announce`` has told of it, and remove it whatever happens."""
    guard = _connect(address)
    try:
        place = _plan(guard, address, home, "database" if database else "schema")
        announce(place)
        guard.execute(_LOCK, (place.name,))
        _make(place)
        try:
            _must_be_kept_apart(place)
            yield place
        finally:
            _remove_for_certain(place)
    finally:
        guard.close()


def sweep(address: Address) -> Iterator[str]:
    """Remove what killed runs have left, and tell it; what may be in use is told alone."""
    with _connect(address) as connection:
        for what, name, age in connection.execute(_LEFT, (_NAMED,)).fetchall():
            yield _swept(connection, what, name, age)


def _swept(connection: BoundedConnection, what: str, name: str, age: float) -> str:
    locked = what == "schema" and not _one(connection, _TRY_LOCK, name)
    try:
        if locked:
            return f"another flask bench is at work in {what} {name}: it disturbs this one"
        if age < LEFT_AFTER_S:
            return f"{what} {name} is left alone: it was made less than {LEFT_AFTER_S:g} s ago"
        # A database in use is not dropped: the server refuses it.
        connection.execute(sql.SQL(_DROPS[what]).format(sql.Identifier(name)))
        return f"removed {what} {name}, which a killed run had left"
    except psycopg.Error as error:
        return f"{what} {name} of an earlier run could not be removed: {_first_line(error)}"
    finally:
        if what == "schema" and not locked:
            connection.execute(_UNLOCK, (name,))


def _connect(address: Address) -> BoundedConnection:
    return connect(address, Role.COMMAND, autocommit=True, application_name="queueapp-bench")


def _one(connection: BoundedConnection, statement: LiteralString, *parameters: str) -> object:
    row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row[0]


def _plan(guard: BoundedConnection, address: Address, home: Path, what: str) -> Place:
    row = guard.execute(_MAY_SCHEMA if what == "schema" else _MAY_DATABASE).fetchone()
    assert row is not None
    may, role, inside = row
    if not may:
        raise SettingError(_way_out(what, role, inside), setting="DATABASE_URL")
    name = f"{PREFIX}{_one(guard, _NOW)}_{secrets.token_hex(3)}"
    url = make_url(address.url)
    given = url.query.get("options", "")
    if not isinstance(given, str):
        raise SettingError("the address has options more than once", setting="DATABASE_URL")
    kept = name if what == "schema" else "public"
    url = url.update_query_dict({"options": f"{given} -c search_path={kept}".strip()})
    if what == "database":
        url = url.set(database=name)
    there = replace(address.settings, database_url=url.render_as_string(hide_password=False))
    return Place(what, name, role, inside, Address(there, home), address, guard)


def _way_out(what: str, role: str, inside: str) -> str:
    if what == "database":
        return (
            f"the role {role} may not create a database: ALTER ROLE {role} CREATEDB,"
            " or leave --database away for a schema"
        )
    return (
        f"the role {role} may not create a schema in the database {inside}:"
        f" GRANT CREATE ON DATABASE {inside} TO {role}, or use --database"
        " with a role that may create databases"
    )


def _make(place: Place) -> None:
    made: LiteralString = (
        "CREATE SCHEMA {}" if place.what == "schema" else "CREATE DATABASE {} TEMPLATE template0"
    )
    try:
        place.guard.execute(sql.SQL(made).format(sql.Identifier(place.name)))
    except psycopg.Error as error:
        if error.sqlstate is None:  # no answer: it may be there
            _remove_for_certain(place)
        raise


def _must_be_kept_apart(place: Place) -> None:
    """A pooler nobody told us of, or a role's setting, must not lead into other tables."""
    with _connect(place.address) as connection:
        found = _one(connection, "SELECT current_setting('search_path')")
    wanted = place.name if place.what == "schema" else "public"
    if found != wanted:
        raise SettingError(
            f"the search path does not stay: asked for {wanted}, got {found};"
            " use the server's own address, past any pooler",
            setting="DATABASE_URL",
        )


def _remove_for_certain(place: Place) -> None:
    """Drop it, from a connection of its own; killed processes may hold locks for a moment."""
    drop: LiteralString = _DROPS[place.what]
    statement = sql.SQL(drop).format(sql.Identifier(place.name))
    if place.what == "database":
        statement += sql.SQL(" WITH (FORCE)")
    for left in reversed(range(_TRIES)):
        try:
            with _connect(place.outside) as connection:
                connection.execute(statement)
            return
        except psycopg.Error as error:
            if not left:
                click.echo(
                    f"The {place.what} {place.name} could not be removed ({_first_line(error)});"
                    " the next flask bench will, or: "
                    f"{drop.format(place.name)};",
                    err=True,
                )
                raise


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
