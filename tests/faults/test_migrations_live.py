"""A schema change beside a live queue: it waits briefly, says for whom; unlike versions stop."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.journey import Journey
from tests.live.processes import ROOT, Process, until

NEXT = """
from alembic import op

revision, down_revision, branch_labels, depends_on = "0003", "0002", None, None


def upgrade() -> None:
    op.execute("ALTER TABLE jobs ADD COLUMN region text")


def downgrade() -> None:
    op.execute("ALTER TABLE jobs DROP COLUMN region")
"""

WAITING = """
SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted
  AND relation = 'jobs'::regclass
"""

# The longest that anybody of the queue has been waiting for a lock.
LONGEST_WAIT = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - state_change)), 0)::float8
FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'queueapp-work%%'
"""


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """The migrations of a release to come: one more column."""
    folder = tmp_path / "migrations"
    shutil.copytree(ROOT / "migrations", folder)
    (folder / "versions" / "0003_region.py").write_text(NEXT)
    return folder


def upgrade(journey: Journey, folder: Path, *options: str) -> Process:
    words = ("flask", "--app", "wsgi", "db", "upgrade", "--directory", str(folder), *options)
    return journey.processes.start("upgrade", *words)


@contextmanager
def a_dump(journey: Journey) -> Iterator[Connection]:
    """A transaction that has read the jobs, as pg_dump holds it open for its whole run."""
    with journey.engine.connect() as connection:
        connection.exec_driver_sql("SET application_name = 'pg_dump'")
        connection.exec_driver_sql("SELECT count(*) FROM jobs")
        yield connection
        connection.rollback()


@pytest.mark.slow
def test_an_upgrade_behind_a_dump_waits_briefly_and_says_for_whom(
    cluster_journey: Journey, next_release: Path
) -> None:
    journey = cluster_journey
    journey.workers(2, "--concurrency", "4")
    web = journey.web()
    jobs: list[int] = []
    waits: list[float] = []

    def goes_on_until(process: Process, said: str) -> None:
        """A stream of work, watched."""

        def said_it() -> bool:
            jobs.append(journey.enqueue_one("journey.tick"))
            waits.append(journey.one(LONGEST_WAIT))
            assert web.ask("GET", f"/api/jobs/{jobs[-1]}").status == 200
            return said in process.said() or not process.is_running

        until(said_it, f"{process.name} says {said!r}")

    with a_dump(journey):
        once = upgrade(journey, next_release, "-x", "tries=1")
        goes_on_until(once, "nothing was changed")
        assert once.wait() == 1
        assert "in use by process" in once.said()
        assert "pg_dump, idle in transaction" in once.said()
        patient = upgrade(journey, next_release)
        goes_on_until(patient, "tries left")
        journey.wait_for_end(jobs)
    assert patient.wait() == 0, patient.said()
    journey.wait_for_end(jobs)
    assert journey.one("SELECT version_num FROM alembic_version") == "0003"
    assert max(waits) < 1.5, "claims waited behind the upgrade"
    assert journey.rows("SELECT status, attempts FROM jobs GROUP BY 1, 2") == [("succeeded", 1)]
    # The workers of the old release go on with a column more.
    stand(journey, accepted=jobs)


@pytest.mark.slow
def test_a_killed_upgrade_leaves_the_old_schema_and_can_be_repeated_by_five_at_once(
    cluster_journey: Journey, next_release: Path
) -> None:
    journey = cluster_journey
    jobs = journey.enqueue("journey.tick", count=2_000)
    with a_dump(journey):
        killed = upgrade(journey, next_release)
        until(lambda: journey.one(WAITING), "it is in the middle")
        killed.kill()
    until(lambda: not journey.one(WAITING), "its session is gone")
    assert journey.one("SELECT version_num FROM alembic_version") == "0002"

    together = [upgrade(journey, next_release) for _ in range(5)]

    assert [each.wait() for each in together] == [0] * 5, [each.said() for each in together]
    assert journey.one("SELECT string_agg(version_num, ' ') FROM alembic_version") == "0003"
    again = upgrade(journey, next_release)
    assert again.wait() == 0
    assert len(journey.rows("SELECT FROM jobs WHERE status = 'queued'")) == len(jobs)
    stand(journey, accepted=jobs)


@pytest.mark.parametrize(
    ("revision", "way_out"),
    [
        ("0000", "run flask db upgrade"),
        pytest.param("0003", "deploy the release it belongs to", marks=pytest.mark.slow),
    ],
)
def test_unlike_versions_refuse_to_work_and_say_so(
    journey: Journey, revision: str, way_out: str
) -> None:
    job = journey.enqueue_one("journey.tick")
    web = journey.web()
    with journey.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = %s", (revision,))
    try:
        worker = journey.work(ready=False)
        ready = web.ask("GET", "/readyz")

        assert worker.wait() == 78
    finally:
        with journey.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0002'")

    said = f"the database has the schema {revision}, this release needs 0002: {way_out}"
    assert said in worker.said()
    assert "Traceback" not in worker.said()
    assert (ready.status, ready.body["code"]) == (503, "schema_mismatch")
    assert said in ready.body["detail"]
    assert (journey.job(job).status, journey.job(job).attempts) == ("queued", 0)
    assert web.ask("GET", "/readyz").status == 200
    stand(journey, accepted=[job])


@pytest.mark.slow
def test_a_column_that_is_missing_costs_no_job_an_attempt(
    cluster_journey: Journey, cluster: Cluster
) -> None:
    """Running while its database is changed, a release waits for the schema that it knows."""
    journey = cluster_journey
    worker = journey.work()
    web = journey.web()
    job = journey.enqueue_one("journey.tick", delay_s=3)
    cluster.say("ALTER TABLE jobs RENAME COLUMN handbacks TO given_back")

    refused = web.ask("POST", "/api/jobs", {"kind": "demo.echo", "payload": {"message": "x"}})
    worker.wait_until_it_says("pump: database error UndefinedColumn")
    cluster.say("ALTER TABLE jobs RENAME COLUMN given_back TO handbacks")

    assert journey.wait_for_status(job, "succeeded").attempts == 1
    assert (refused.status, refused.body["code"]) == (503, "schema_mismatch")
    assert worker.is_running
    stand(journey)
