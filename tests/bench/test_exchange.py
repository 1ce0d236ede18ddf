"""The hot statement driven by pgbench does what a worker does with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskCliRunner
from sqlalchemy.engine import make_url

from bench import exchange, pgbench, stores
from queueapp.jobs.transitions.settle import exchange_statement
from queueapp.local_postgres import find_binaries
from tests.live.needs import program
from tests.postgres import text_of

JOBS = 300

pytestmark = pytest.mark.postgresql("pgbench drives nothing else")


@pytest.mark.parametrize(("batch", "clients"), [(100, 1), (10, 2)])
def test_pgbench_runs_each_job_once_and_the_ledger_folds(
    database_url: str, runner: FlaskCliRunner, tmp_path: Path,
    batch: int, clients: int,
) -> None:  # fmt: skip
    program("pgbench", "postgresql-contrib")
    url = text_of(make_url(database_url).set(drivername="postgresql"))
    ask(url, stores.fill(str(stores.OURS.waiting), JOBS))
    calls = JOBS // batch + 5

    driven = pgbench.drive(
        find_binaries(), url, exchange.script(batch=batch, clients=clients),
        calls=calls, scratch=tmp_path,
    )  # fmt: skip

    assert driven.calls == calls * clients
    of_jobs = "SELECT status, attempts, locked_by, started_at <= finished_at, count(*) FROM jobs"
    assert ask(url, f"{of_jobs} GROUP BY 1, 2, 3, 4") == [("succeeded", 1, None, True, JOBS)]
    of_events = "SELECT event, count(*), count(DISTINCT job_id) FROM job_events GROUP BY 1"
    assert ask(url, f"{of_events} ORDER BY 1") == [
        (event, JOBS, JOBS) for event in ("claimed", "enqueued", "succeeded")
    ]
    # No call has more than its batch, and the calls of one client are full ones.
    sizes = [size for (size,) in ask(url, _SIZES)]
    assert max(sizes) == batch
    audited = runner.invoke(args=["audit"])
    assert audited.exit_code == 0, audited.output


_SIZES = "SELECT count(*) FROM job_events WHERE event = 'claimed' GROUP BY xmin::text"


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def test_the_script_has_the_whole_statement_of_the_worker() -> None:
    statement = exchange_statement(only=False, skip=False)

    script = exchange.script(batch=100, clients=2)

    said = re.sub(r"%\((\w+)\)s", r":\1", statement)
    for part in said.split(" SELECT NULL AS settled,"):
        assert part in script.text
    assert script.variables["n"] == 100
    assert "enable_seqscan=off" in script.session


def test_a_statement_that_ends_otherwise_is_refused() -> None:
    with pytest.raises(ValueError, match="does not end as expected"):
        exchange.made_of("WITH claimed AS (SELECT 1) SELECT id FROM claimed")
