"""``flask bench``: what it reports, and above all that nothing of it stays."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from queueapp import create_app
from queueapp.commands.bench import limits, notes
from queueapp.commands.bench.limits import Turn
from queueapp.commands.bench.notes import Notes
from queueapp.commands.bench.place import PREFIX, Place, sweep, throw_away
from queueapp.commands.bench.tables import Tables
from queueapp.connections import address_of, connect
from queueapp.connections.bounds import Role
from queueapp.handlers import kinds
from queueapp.jobs.status import Status
from tests import postgres
from tests.factories import make_job

ROOT = Path(__file__).parents[2]
DOCUMENTED = re.compile(r"^\| `([a-z0-9_.]+)` \|", re.MULTILINE)
LEFT = f"{PREFIX}20200101000000_abcdef"
OWN = "SELECT j.*, (SELECT count(*) FROM job_events) AS events FROM jobs j ORDER BY id"


class Bench:
    """One ``flask bench`` as a person starts it, its temporary files in a folder of the test."""

    def __init__(self, url: str, folder: Path, *options: str) -> None:
        self._said = folder / "said"
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flask", "--app", "wsgi", "bench", *options],
                cwd=ROOT,
                env={
                    **os.environ, "DATABASE_URL": url, "TMPDIR": str(folder),
                    "QUEUE_CONCURRENCY": "2", "QUEUE_KEEP_SUCCEEDED": "1ms",
                },
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_until_it_says(self, words: str) -> None:
        deadline = time.monotonic() + 60
        while words not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def end(self) -> str:
        answer, _ = self.process.communicate(timeout=200)
        return answer


@contextlib.contextmanager
def bench(url: str, folder: Path, *options: str) -> Iterator[Bench]:
    started = Bench(url, folder, *options)
    try:
        yield started
    finally:
        # A test that has failed leaves nothing to the next one.
        started.process.terminate()
        started.process.wait(60)
        if started.process.stdout:
            started.process.stdout.close()


def left_of_it(engine: sa.Engine, folder: Path) -> list[Any]:
    """Schemas, databases, files and processes that a bench has not removed."""
    with engine.connect() as connection:
        named = sa.text(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, :prefix)"
            " UNION ALL SELECT datname FROM pg_database WHERE starts_with(datname, :prefix)"
        )
        found: list[Any] = list(connection.scalars(named, {"prefix": PREFIX}))
    return found + list(folder.glob("queueapp-bench-*")) + processes_of(folder)


def processes_of(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"={folder}/queueapp-bench-".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def flat(document: dict[str, Any], before: str = "") -> set[str]:
    """The names of all figures, as the documentation writes them."""
    names: set[str] = set()
    for name, value in document.items():
        if isinstance(value, dict) and name != "ms_of_a_turn":
            names |= flat(value, f"{before}{name}.")
        else:
            names.add(before + name)
    return names


def test_a_run_reports_what_is_documented_and_touches_nothing(
    database_url: str, engine: sa.Engine, session: Session, tmp_path: Path
) -> None:
    for status in (Status.QUEUED, Status.SUCCEEDED):
        make_job(session, status)
    session.commit()
    before = session.execute(sa.text(OWN)).all()
    session.rollback()

    options = ("--jobs", "20", "--for", "10m", "--json")
    with bench(database_url, tmp_path, *options) as run:
        report = json.loads(run.end() or "null")

    assert run.process.returncode == 0, run.said
    assert flat(report) == set(DOCUMENTED.findall((ROOT / "docs" / "measuring.md").read_text()))
    assert (report["holds"], report["complete"], report["problems"]) == (True, True, [])
    assert report["drain"] | {"jobs": 20, "finished": 20, "concurrency": 2} == report["drain"]
    assert report["latency"]["jobs"] == 20
    assert report["cost"]["wal_bytes_per_job"] > 100
    # The claim and the success each leave one; nothing else writes the row of such a job.
    assert report["cost"]["dead_tuples_per_job"] >= 1
    assert re.search(rf"makes the schema {PREFIX}\d+_\w+ in the database .* 20 jobs", run.said)
    assert session.execute(sa.text(OWN)).all() == before
    assert left_of_it(engine, tmp_path) == []


def test_ctrl_c_in_the_middle_leaves_nothing_and_exits_130(
    database_url: str, engine: sa.Engine, tmp_path: Path
) -> None:
    with bench(database_url, tmp_path, "--jobs", "200", "--for", "10m") as run:
        run.wait_until_it_says("idle to start")
        there = left_of_it(engine, tmp_path)
        os.killpg(run.process.pid, signal.SIGINT)  # as the terminal does
        said = run.end()

    assert (run.process.returncode, said) == (130, ""), run.said
    assert "Interrupted: nothing is reported" in run.said
    assert len(there) >= 3  # a schema, a folder, a process at least
    assert left_of_it(engine, tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_database_of_its_own_takes_two_processes_and_sigterm(
    database_url: str, engine: sa.Engine, tmp_path: Path
) -> None:
    options = ("--database", "--processes", "2", "--for", "10m")
    with bench(database_url, tmp_path, *options, "--jobs", "50") as whole:
        said = whole.end()
    with bench(database_url, tmp_path, *options, "--jobs", "50") as run:
        run.wait_until_it_says("migrating")
        run.process.send_signal(signal.SIGTERM)
        run.end()

    assert whole.process.returncode == 0, whole.said
    assert "Each of 50 jobs ran once and succeeded." in said
    assert "What bounds the drain: " in said
    assert run.process.returncode == 130, run.said
    assert left_of_it(engine, tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_run_takes_its_workers_along_and_the_next_run_finds_the_rest(
    database_url: str, engine: sa.Engine, tmp_path: Path
) -> None:
    with bench(database_url, tmp_path, "--for", "10m") as run:
        run.wait_until_it_says("idle to start")
        assert processes_of(tmp_path)
        run.process.kill()
        run.end()
    deadline = time.monotonic() + 30
    while processes_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    [schema, folder] = left_of_it(engine, tmp_path)
    with engine.begin() as connection:
        connection.execute(sa.text(f"ALTER SCHEMA {schema} RENAME TO {LEFT}"))

    with bench(database_url, tmp_path, "--jobs", "10", "--for", "10m") as following:
        following.end()

    assert folder.name.startswith("queueapp-bench-")
    assert f"removed schema {LEFT}" in following.said
    assert left_of_it(engine, tmp_path) == []


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


def test_what_did_not_run_exactly_once_is_found(app: Flask, session: Session) -> None:
    good, twice, silent = (make_job(session, Status.SUCCEEDED).id for _ in range(3))
    failed, waits = (make_job(session, one).id for one in (Status.FAILED, Status.QUEUED))
    session.commit()
    runs = [(good, 1.0), (twice, 1.0), (twice, 2.0), (failed, 1.0)]

    with connect(address_of(app), Role.COMMAND, autocommit=True) as connection:
        cut_short = Tables(connection).problems(runs, unfinished=True)
        complete = Tables(connection).problems(runs, unfinished=False)

    assert [problem for problem in cut_short if "failed after" not in problem] == [
        f"job {twice} ran 2 times",
        f"job {silent} succeeded and was not run",
        f"job {failed} was run and did not succeed",
    ]
    assert len(cut_short) == 4
    assert set(complete) - set(cut_short) == {f"job {waits} is queued after 0 attempts"}


def test_notes_come_back_as_they_were_made(tmp_path: Path) -> None:
    noted = Notes()
    for job in range(1, 131):
        noted.add(job)
    noted.write(tmp_path)
    Notes().write(tmp_path)

    found = notes.read(tmp_path)

    assert [job for job, _ in found.runs] == list(range(1, 131))
    assert [at for _, at in found.runs] == sorted(at for _, at in found.runs)
    assert [(first.runs, last.runs) for first, last in found.samples] == [(1, 128)]
    assert found.cpu_per_run is not None


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        (Turn(10, 1, 8, 1), "the commit time: 7000.00 of the 10000.00 ms"),
        (Turn(10, 6, 7, 1), "the round trip"),
        (Turn(10, 1, 2, 7), "CPU of the worker"),
        (Turn(10, 1, 2, None), "the server: 8000.00 of the 10000.00 ms"),
        (Turn(10, 1, 2, 1, 0.75), "the commit time: 6000.00 of the 10000.00 ms"),
        (Turn(10, 1, 8, 1, 0.25), "the server: 6000.00 of the 10000.00 ms"),
        (None, "too few jobs to tell"),
    ],
)
def test_the_largest_part_of_a_turn_bounds_the_drain(turn: Turn | None, says: str) -> None:
    assert limits.sentence(turn, server_here=True, cpus=2).startswith(says)


def test_the_kind_of_a_bench_is_known_to_benches_alone() -> None:
    create_app()

    assert not any(handler.kind.startswith("bench.") for handler in kinds())
