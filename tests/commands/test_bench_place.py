"""Where ``flask bench`` works: a place that is always removed, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from flask import Flask

from queueapp import create_app
from queueapp.commands.bench import place
from queueapp.commands.bench.place import PREFIX, Place, sweep, throw_away
from queueapp.connections import Address, address_of, connect
from queueapp.connections.bounds import Role
from queueapp.errors import SettingError
from tests import postgres
from tests.commands.test_bench import LEFT, left_of_it


def nowhere(_place: Place) -> None:
    """Tell nobody."""


@pytest.mark.parametrize("what", ["schema", "database"])
def test_a_failure_in_the_middle_leaves_nothing(
    app: Flask, engine: sa.Engine, tmp_path: Path, what: str
) -> None:
    there = []

    def fail_within() -> None:
        is_database = what == "database"
        with (
            throw_away(address_of(app), tmp_path, database=is_database, announce=nowhere) as place,
            connect(place.address, Role.WORK, autocommit=True) as connection,
        ):
            connection.execute("CREATE TABLE jobs (id int)")
            there.extend(left_of_it(engine, tmp_path))
            # The revision of the database around it is out of sight.
            connection.execute("SELECT version_num FROM alembic_version")

    with pytest.raises(psycopg.errors.UndefinedTable):
        fail_within()

    assert len(there) == 1
    assert left_of_it(engine, tmp_path) == []


@pytest.fixture
def leftovers(engine: sa.Engine) -> Iterator[None]:
    """A schema that a killed run left long ago, and one of somebody's own with such a name."""
    schemas = (LEFT, f"{PREFIX}mine")
    with engine.begin() as connection:
        for schema in schemas:
            connection.execute(sa.text(f"CREATE SCHEMA {schema} CREATE TABLE jobs (id int)"))
    yield
    with engine.begin() as connection:
        for schema in schemas:
            connection.execute(sa.text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))


@pytest.mark.usefixtures("leftovers")
def test_what_a_killed_run_left_is_removed_and_nothing_else(
    app: Flask, engine: sa.Engine, tmp_path: Path
) -> None:
    address = address_of(app)
    lock = sa.text("SELECT pg_advisory_lock(hashtextextended(:name, 0))")
    with engine.connect() as holder:
        holder.execute(lock, {"name": LEFT})
        busy = list(sweep(address))
        holder.invalidate()
    with throw_away(address, tmp_path, database=True, announce=nowhere) as young:
        free = list(sweep(address))
        there = left_of_it(engine, tmp_path)

    assert busy == [f"another flask bench is at work in schema {LEFT}: it disturbs this one"]
    assert free == [
        f"removed schema {LEFT}, which a killed run had left",
        f"database {young.name} is left alone: it was made less than 60 s ago",
    ]
    assert there == [f"{PREFIX}mine", young.name]


@pytest.mark.parametrize(
    ("settings", "status", "reason"),
    [
        ({"DATABASE_URL": "sqlite:////tmp/no.db"}, 78, "flask bench measures PostgreSQL"),
        ({"QUEUE_POOLER": "1"}, 78, "behind a transaction pooler no search path is kept"),
        ({"QUEUE_ENV": "production"}, 2, "--yes"),
        ({"QUEUE_CONCURRENCY": "0"}, 78, "give --concurrency"),
        ({"QUEUE_PROCESSES": "64", "QUEUE_CONCURRENCY": "500"}, 78, "lower --processes"),
    ],
)
def test_where_it_cannot_be_it_says_so_and_begins_nothing(
    database_url: str, engine: sa.Engine, tmp_path: Path, settings: dict[str, str], status: int,
    reason: str,
) -> None:  # fmt: skip
    app = create_app({"DATABASE_URL": database_url, **settings})

    result = app.test_cli_runner().invoke(args=["bench"])

    assert result.exit_code == status, result.output
    assert reason in result.stderr
    assert left_of_it(engine, tmp_path) == []


@pytest.mark.parametrize(
    ("option", "way_out"),
    [((), "GRANT CREATE ON DATABASE"), (("--database",), "ALTER ROLE bench_guest CREATEDB")],
)
def test_a_role_that_may_not_is_told_what_it_lacks(
    database_url: str, engine: sa.Engine, option: tuple[str, ...], way_out: str
) -> None:
    with engine.begin() as connection:
        if not connection.scalar(sa.text("SELECT rolsuper FROM pg_roles WHERE rolname = user")):
            pytest.skip("no right to make a role")
        connection.execute(sa.text("CREATE ROLE bench_guest LOGIN PASSWORD 'guest'"))
    guest = sa.make_url(database_url).set(username="bench_guest", password="guest")
    try:
        app = create_app({"DATABASE_URL": postgres.text_of(guest)})
        result = app.test_cli_runner().invoke(args=["bench", *option])
    finally:
        with engine.begin() as connection:
            connection.execute(sa.text("DROP ROLE bench_guest"))

    assert result.exit_code == 78, result.output
    assert f"the role bench_guest may not create a {'database' if option else 'schema'}" in (
        result.stderr
    )
    assert way_out in result.stderr


def test_an_address_with_options_twice_is_refused(app: Flask, tmp_path: Path) -> None:
    address = address_of(app)
    url = sa.make_url(address.url).update_query_dict({"options": ["-c jit=off", "-c jit=on"]})
    settings = replace(address.settings, database_url=url.render_as_string(hide_password=False))

    with (
        pytest.raises(SettingError, match="options more than once"),
        connect(address, Role.WORK, autocommit=True) as guard,
    ):
        place._plan(guard, Address(settings, tmp_path), tmp_path, "schema")
