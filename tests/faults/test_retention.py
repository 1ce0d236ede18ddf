"""Retention beside a busy queue: what has ended long ago goes, what lives and what holds stays."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from queueapp.jobs import control, partitions, transitions
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import Process, until

OLD = 1_500
# Housekeeping leaves to the command what is tested here.
KEEP_ALL = {
    "QUEUE_KEEP_SUCCEEDED": "3650d",
    "QUEUE_KEEP_FAILED": "3650d",
    "QUEUE_KEEP_CANCELLED": "3650d",
}

AGE = """
UPDATE jobs SET created_at = created_at - make_interval(secs => %(age)s),
  finished_at = finished_at - make_interval(secs => %(age)s)
WHERE id = ANY(%(ids)s)
"""

SLOW = """
CREATE FUNCTION slow_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(0.002); RETURN OLD; END $$;
CREATE TRIGGER slow_delete BEFORE DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION slow_delete()
"""


@pytest.fixture
def slow_deletes(journey: Journey) -> Iterator[None]:
    """Make a batch take a second."""
    with journey.engine.begin() as connection:
        connection.exec_driver_sql(SLOW)
    yield
    journey.processes.close()
    with journey.engine.begin() as connection:
        connection.exec_driver_sql("DROP FUNCTION slow_delete() CASCADE")


def age(journey: Journey, jobs: list[int], by: timedelta) -> None:
    with journey.engine.begin() as connection:
        connection.exec_driver_sql(AGE, {"ids": jobs, "age": by.total_seconds()})


def purge(journey: Journey, *options: str) -> Process:
    return journey.processes.start("purge", "flask", "--app", "wsgi", "purge", *options)


def purged(journey: Journey) -> int:
    return int(journey.one("SELECT count(*) FROM job_events WHERE event = 'purged'"))


@pytest.mark.slow
@pytest.mark.usefixtures("slow_deletes")
def test_purge_beside_busy_workers_killed_and_twice_at_once_touches_no_live_job(
    journey: Journey,
) -> None:
    worker = journey.work("--concurrency", "4", QUEUE_BACKOFF_BASE="0.01s", **KEEP_ALL)  # type: ignore[arg-type]
    old = journey.enqueue("journey.tick", count=OLD)
    planned = journey.enqueue_one("journey.tick", delay_s=timedelta(days=30).total_seconds())
    cancelled = journey.enqueue_one("journey.tick", delay_s=3600)
    failed, retried = journey.enqueue("journey.flaky", {"fail_first": 2}, count=2, max_attempts=2)
    running = journey.enqueue_one("journey.gate")
    with journey.engine.begin() as connection:
        transitions.cancel(connection, [cancelled], actor="user:ana", reason="x")
    journey.wait_for_end(old)
    journey.wait_for_end([failed, retried])
    journey.wait_for_start(running)
    live = [planned, cancelled, failed, retried, running]
    age(journey, [*old, planned, running], timedelta(days=60))
    age(journey, [failed], timedelta(days=1))
    age(journey, [retried], timedelta(days=100))

    with journey.engine.begin() as psql:
        # Retried while retention runs: its row is locked when a purge comes by, then queued.
        transitions.requeue(psql, [retried], actor="user:ana", reason="x")
        stream = journey.enqueue("journey.tick", {"ms": 20}, count=200)
        first = purge(journey)
        until(lambda: 0 < purged(journey) < OLD, "it is in the middle")
        first.kill()
        rest = [purge(journey), purge(journey)]
        until(lambda: purged(journey) == OLD, "all that is old is gone")
    assert [each.wait() for each in rest] == [0, 0], [each.said() for each in rest]
    journey.open(running)
    journey.wait_for_end([*stream, retried, running])

    told = "SELECT job_id FROM job_events WHERE event = 'purged' ORDER BY job_id"
    assert [row.job_id for row in journey.rows(told)] == old, "each once, and no other"
    assert all("Removed: " in each.said() for each in rest)
    statuses = {job: journey.job(job).status for job in live}
    assert statuses == {
        planned: "queued",
        cancelled: "cancelled",
        failed: "failed",
        retried: "failed",
        running: "succeeded",
    }
    assert worker.is_running
    stand(journey, accepted=[*live, *stream], edited=[failed])


@pytest.mark.slow
def test_a_key_is_remembered_as_promised_and_no_longer(journey: Journey) -> None:
    journey.work(**KEEP_ALL)  # type: ignore[arg-type]
    web = journey.web(QUEUE_IDEMPOTENCY_DAYS="7")
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "succeeded": ("journey.tick", {}),
        "failed": ("journey.flaky", {"fail_first": 9}),
        "cancelled": ("journey.gate", {}),
        "retried": ("journey.flaky", {"fail_first": 1}),
    }

    def post(name: str) -> tuple[int, int]:
        kind, payload = kinds[name]
        body = {"kind": kind, "payload": payload, "max_attempts": 1}
        answer = web.ask("POST", "/api/jobs", {**body, "idempotency_key": name})
        return answer.status, answer.body["id"]

    jobs = {name: post(name)[1] for name in kinds}
    journey.wait_for_start(jobs["cancelled"])
    assert web.ask("POST", f"/api/jobs/{jobs['cancelled']}/cancel").status == 200
    journey.open(jobs["cancelled"])
    journey.wait_for_end(list(jobs.values()))
    first = journey.job(jobs["retried"]).status
    nearly = timedelta(days=7) - timedelta(minutes=2)
    age(journey, list(jobs.values()), nearly)
    with journey.engine.begin() as connection:
        transitions.requeue(connection, [jobs["retried"]], actor="user:ana", reason="x")
    journey.wait_for_end(list(jobs.values()))
    starts = len(journey.ledger.starts())
    options = ("--succeeded", "1h", "--failed", "1h", "--cancelled", "1h")

    assert purge(journey, *options).wait() == 0
    assert {name: post(name) for name in kinds} == {name: (200, job) for name, job in jobs.items()}
    age(journey, list(jobs.values()), timedelta(minutes=3))
    assert purge(journey, *options).wait() == 0
    again = {name: post(name) for name in kinds}

    assert first == "failed"
    # The one that was retried by hand has ended just now: its promise has begun anew.
    assert again.pop("retried") == (200, jobs["retried"])
    assert all(status == 201 and job > max(jobs.values()) for status, job in again.values())
    journey.open(again["cancelled"][1])
    journey.wait_for_end([job for _, job in again.values()])
    assert len(journey.ledger.starts()) == starts + 3
    stand(journey, edited=list(jobs.values()))


@pytest.fixture
def old_day(journey: Journey) -> Iterator[date]:
    """The ledger's day of a hundred days ago."""
    with journey.engine.begin() as connection:
        day = partitions.today_utc(connection) - timedelta(days=100)
        partitions.make(connection, day)
    yield day
    journey.processes.close()
    with journey.engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS job_events_{day:%Y%m%d}")


def test_a_pause_outlives_its_day_of_the_ledger(journey: Journey, old_day: date) -> None:
    with journey.engine.begin() as connection:
        control.pause(connection, actor="user:ana", reason="migration")
        move = "UPDATE job_events SET created_at = %(noon)s"
        connection.exec_driver_sql(move, {"noon": f"{old_day} 12:00+00"})
    job = journey.enqueue_one("journey.tick")

    workers = journey.workers(2)
    until(lambda: old_day not in days(journey), "housekeeping drops the day")
    [carried] = journey.rows("SELECT * FROM job_events WHERE event = 'control_carried'")
    late = journey.work("--drain", ready=False)
    later = journey.enqueue_one("journey.tick")
    until(lambda: journey.workers_seen() >= 3 or not late.is_running, "a third one looks")

    told = {"event": "queue_paused", "actor": "user:ana", "reason": "migration"}
    assert carried.data | told == carried.data
    assert carried.data["at"].startswith(f"{old_day}T12:00:00")
    assert [journey.job(each).status for each in (job, later)] == ["queued", "queued"]
    late.kill()
    with journey.engine.begin() as connection:
        control.resume(connection, actor="user:ana")
    journey.wait_for_end([job, later])
    assert all(worker.is_running for worker in workers)
    stand(journey)


def days(journey: Journey) -> set[date]:
    with journey.engine.connect() as connection:
        return partitions.days(connection)
