"""``flask bench``: what it reports, and above all that nothing of it stays."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.commands.bench.place import PREFIX
from queueapp.jobs.status import Status
from tests.factories import make_job
from tests.live.processes import until

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
        def look() -> bool:
            has_said_it = words in self.said
            assert has_said_it or self.process.poll() is None, self.said
            return has_said_it

        until(look, f"it says {words!r}", within=60)

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


@pytest.mark.slow
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


@pytest.mark.slow
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
    until(lambda: not processes_of(tmp_path), "its processes have ended")
    [schema, folder] = left_of_it(engine, tmp_path)
    with engine.begin() as connection:
        connection.execute(sa.text(f"ALTER SCHEMA {schema} RENAME TO {LEFT}"))

    with bench(database_url, tmp_path, "--jobs", "10", "--for", "10m") as following:
        following.end()

    assert folder.name.startswith("queueapp-bench-")
    assert f"removed schema {LEFT}" in following.said
    assert left_of_it(engine, tmp_path) == []
