"""The migrations: up from nothing, down to nothing, and the schema that the models describe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import flask_migrate
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from queueapp import create_app
from queueapp.base import Base
from queueapp.extensions import db
from queueapp.jobs.partitions import DAYS_AHEAD
from tests.locks import until_a_lock_is_awaited

ROOT = Path(__file__).resolve().parent.parent
UPGRADE_LOCK = 730_042

COLUMNS = """
SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
  a.attidentity::text, pg_get_expr(d.adbin, d.adrelid)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relname IN ('jobs', 'job_events') AND a.attnum > 0 ORDER BY 1, 2"""

CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid IN ('jobs'::regclass, 'job_events'::regclass) AND contype IN ('c', 'p', 'u', 'f')
ORDER BY 1, 2"""

INDEXES = """
SELECT tablename, indexname, indexdef FROM pg_indexes
WHERE tablename IN ('jobs', 'job_events') ORDER BY 1, 2"""

RELATIONS = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
  AND relname NOT LIKE 'alembic_version%' ORDER BY 1"""

PARTITIONS = """
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'job_events'::regclass ORDER BY 1"""


@contextmanager
def fresh_database(beside: str, name: str) -> Iterator[str]:
    """Make a database without any table on the same server; remove it afterwards."""
    url = make_url(beside)
    fresh = url.set(database=f"{url.database}_{name}")
    server = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(sa.text(f'CREATE DATABASE "{fresh.database}" TEMPLATE template0'))
        try:
            yield fresh.render_as_string(hide_password=False)
        finally:
            connection.execute(sa.text(f'DROP DATABASE "{fresh.database}" WITH (FORCE)'))
    server.dispose()


@pytest.fixture
def empty_url(database_url: str) -> Iterator[str]:
    with fresh_database(database_url, "empty") as url:
        yield url


def migrate(url: str, direction: str = "upgrade", revision: str = "head") -> None:
    app = create_app({"DATABASE_URL": url, "TESTING": True})
    with app.app_context():
        getattr(flask_migrate, direction)(revision=revision)
        db.engine.dispose()


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = sa.create_engine(url, connect_args={"options": "-c timezone=UTC"})
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(sa.text(statement))]
    engine.dispose()
    return found


def flask_command(url: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "wsgi", *arguments],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_downgrade_leaves_nothing_behind(empty_url: str) -> None:
    migrate(empty_url)
    migrate(empty_url, "downgrade", "base")

    assert rows(empty_url, RELATIONS) == []
    assert rows(empty_url, "SELECT version_num FROM alembic_version") == []


def test_upgrade_after_downgrade_makes_the_same_schema(empty_url: str, database_url: str) -> None:
    migrate(empty_url)
    migrate(empty_url, "downgrade", "base")
    migrate(empty_url)

    assert rows(empty_url, RELATIONS) == rows(database_url, RELATIONS)


def test_an_upgrade_step_by_step_makes_the_same_schema(empty_url: str, database_url: str) -> None:
    migrate(empty_url, revision="0001")
    migrate(empty_url)
    there = rows(empty_url, INDEXES)
    migrate(empty_url, "downgrade", "0001")

    assert there == rows(database_url, INDEXES)
    assert len(rows(empty_url, INDEXES)) < len(there)


def test_a_second_upgrade_changes_nothing(empty_url: str) -> None:
    migrate(empty_url)
    before = rows(empty_url, "SELECT oid, relname, relfilenode FROM pg_class ORDER BY 1")

    migrate(empty_url)

    assert rows(empty_url, "SELECT oid, relname, relfilenode FROM pg_class ORDER BY 1") == before


def test_flask_db_check_finds_no_drift(database_url: str) -> None:
    check = flask_command(database_url, "db", "check")
    output, _ = check.communicate(timeout=60)

    assert check.returncode == 0, output
    assert "No new upgrade operations detected" in output


@pytest.mark.parametrize("statement", [COLUMNS, CONSTRAINTS, INDEXES])
def test_the_migrations_make_what_the_models_describe(
    empty_url: str, database_url: str, statement: str
) -> None:
    """More than ``flask db check`` compares: CHECK texts, predicates, defaults, identities."""
    engine = sa.create_engine(empty_url)
    Base.metadata.create_all(engine)
    engine.dispose()

    assert rows(database_url, statement) == rows(empty_url, statement)


@pytest.mark.slow
def test_five_upgrades_at_once_all_end_well(empty_url: str) -> None:
    upgrades = [flask_command(empty_url, "db", "upgrade") for _ in range(5)]
    outputs = [upgrade.communicate(timeout=110)[0] for upgrade in upgrades]

    assert [upgrade.returncode for upgrade in upgrades] == [0] * 5, outputs
    assert rows(empty_url, "SELECT count(*) FROM alembic_version") == [(1,)]
    assert len(rows(empty_url, PARTITIONS)) == DAYS_AHEAD + 2


def test_an_upgrade_that_was_killed_can_be_repeated(empty_url: str) -> None:
    engine = sa.create_engine(empty_url)
    with engine.begin() as rival:
        rival.execute(sa.text(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})"))
        killed = flask_command(empty_url, "db", "upgrade")
        until_a_lock_is_awaited(engine, "advisory")
        killed.kill()
        killed.communicate(timeout=30)
    engine.dispose()

    migrate(empty_url)

    assert len(rows(empty_url, PARTITIONS)) == DAYS_AHEAD + 2


def test_jobs_leaves_room_for_renewals_and_is_vacuumed_early(database_url: str) -> None:
    [(options,)] = rows(database_url, "SELECT reloptions FROM pg_class WHERE relname = 'jobs'")

    assert set(options) == {
        "fillfactor=70",
        "autovacuum_vacuum_scale_factor=0.01",
        "autovacuum_vacuum_threshold=1000",
        "autovacuum_vacuum_cost_delay=0",
    }


def test_days_are_bounded_in_utc_whatever_the_zone_of_the_role(empty_url: str) -> None:
    zone = f"ALTER DATABASE \"{make_url(empty_url).database}\" SET timezone = 'Asia/Tokyo'"
    engine = sa.create_engine(empty_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(zone))
    engine.dispose()
    before = datetime.now(UTC).date()

    migrate(empty_url)

    # The day may change while this runs.
    assert rows(empty_url, PARTITIONS) in (days_from(before), days_from(datetime.now(UTC).date()))


def days_from(first: date) -> list[tuple[str, str]]:
    days = [first + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 2)]
    return [
        *(
            (
                f"job_events_{day:%Y%m%d}",
                f"FOR VALUES FROM ('{day} 00:00:00+00') TO ('{after} 00:00:00+00')",
            )
            for day, after in pairwise(days)
        ),
        ("job_events_default", "DEFAULT"),
    ]


def test_the_first_event_does_not_land_in_the_default_partition(empty_url: str) -> None:
    migrate(empty_url)
    engine = sa.create_engine(empty_url)
    insert = "INSERT INTO job_events (scope, event, actor) VALUES ('queue', 'queue_paused', 'app')"
    with engine.begin() as connection:
        connection.execute(sa.text(insert))
    engine.dispose()

    assert rows(empty_url, "SELECT count(*) FROM job_events_default") == [(0,)]
    assert rows(empty_url, "SELECT count(*) FROM job_events") == [(1,)]
