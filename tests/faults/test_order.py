"""The order is exactly priority, due time, creation, id, whichever way a job came into the line."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from queueapp.jobs import transitions
from queueapp.jobs.transitions import NewJob
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until

IN_ORDER = """
SELECT id FROM jobs WHERE status = 'queued'
ORDER BY priority DESC, available_at ASC, created_at ASC, id ASC
"""
EACH = 10


def fresh(connection: Connection, mix: random.Random) -> list[int]:
    """Sixty due jobs of one instant of creation: each priority, ties, ids in no order."""
    now = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    due = [now - timedelta(seconds=ago) for ago in (1, 1, 2, 3)]
    places = [(n % 11 - 5, due[n % len(due)]) for n in range(60)]
    mix.shuffle(places)
    new = [NewJob(kind="journey.tick", payload={}, priority=p, available_at=at) for p, at in places]
    made = transitions.enqueue(connection, new, producer="app", actor="app", via="python")
    return [job.id for job in made]


@pytest.mark.slow
def test_every_way_into_the_line_leads_to_the_same_order(journey: Journey) -> None:
    mix = random.Random(5)

    def batch(kind: str, max_attempts: int = 5) -> list[int]:
        return [
            journey.enqueue_one(kind, priority=mix.randint(-5, 5), max_attempts=max_attempts)
            for _ in range(EACH)
        ]

    held = batch("journey.tick")
    with journey.engine.begin() as connection:
        transitions.hold(connection, held, actor="user:ana", reason="x")
    first = journey.work("--concurrency", "40", "--lease", "2", QUEUE_BACKOFF_BASE="4s")
    retried = batch("journey.flaky")
    failed = batch("journey.flaky", max_attempts=1)
    lost = batch("journey.gate")
    journey.wait_for_end(failed)
    for job in (*lost, *retried):
        journey.wait_for_start(job)
    until(lambda: all(journey.job(job).status == "queued" for job in retried), "retries wait")
    first.kill()
    sweeper = journey.work("--concurrency", "0", QUEUE_BACKOFF_BASE="1s")
    until(lambda: all(journey.job(job).status == "queued" for job in lost), "the lost are back")
    with journey.engine.begin() as connection:
        transitions.requeue(connection, failed, actor="user:ana", reason="x")
        transitions.unhold(connection, held, actor="user:ana", reason="x")
        new = fresh(connection, mix)
    for job in lost:
        journey.open(job, attempt=2)
    ahead = "SELECT count(*) FROM jobs WHERE status = 'queued' AND available_at > now()"
    until(lambda: not journey.one(ahead), "all are due")
    expected = [row.id for row in journey.rows(IN_ORDER)]
    before = len(journey.ledger.starts())

    journey.work("--concurrency", "1")
    journey.wait_for_end(new)
    until(lambda: not journey.rows(IN_ORDER), "the line is empty")

    assert sorted(expected) == sorted([*held, *retried, *failed, *lost, *new])
    assert [line.job for line in journey.ledger.starts()][before:] == expected
    assert sweeper.is_running
    stand(journey, every_claim_started=False)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO jobs (kind, payload, status, producer, priority)"
        " VALUES ('journey.tick', '{}', 'queued', 'app', NULL)",
        "UPDATE jobs SET priority = NULL",
    ],
)
def test_no_job_is_without_a_priority(journey: Journey, statement: str) -> None:
    """NULL would come first in PostgreSQL's descending order."""
    journey.enqueue_one("journey.tick")

    with pytest.raises(IntegrityError, match="priority"), journey.engine.begin() as connection:
        connection.exec_driver_sql(statement)

    stand(journey)


def test_a_backlog_that_never_ends_hides_nothing_that_comes_in_behind_it(journey: Journey) -> None:
    """Claims begin where the last one ended, and now and then everywhere."""

    def feed(so_many: int = 1_000) -> None:
        """Five seconds of work wait at all times."""
        waiting = journey.one("SELECT count(*) FROM jobs WHERE status = 'queued'")
        assert waiting > 10, "the backlog has ended: what follows would prove nothing"
        if waiting < so_many:
            journey.enqueue("journey.tick", {"ms": 20}, count=so_many - waiting)

    def ended(*jobs: int) -> bool:
        feed()
        return all(journey.job(job).status == "succeeded" for job in jobs)

    journey.enqueue("journey.tick", {"ms": 20}, count=100)
    with journey.engine.connect() as psql, psql.begin():
        new = NewJob(kind="journey.tick", payload={})
        [late] = transitions.enqueue(psql, [new], producer="app", actor="app", via="python")
        younger = journey.enqueue_one("journey.tick")
        feed()
        worker = journey.work("--concurrency", "4")
        until(lambda: ended(younger), "a job is done that is younger than the late one")
    long_ago = journey.one("SELECT clock_timestamp()") - timedelta(days=365)
    back_dated = journey.enqueue_one("journey.tick", available_at=long_ago)

    until(lambda: ended(late.id, back_dated), "what came in behind is done", within=10)

    worker.stop()
    stand(journey, every_claim_started=False)


def test_a_job_whose_transaction_commits_late_is_found(journey: Journey) -> None:
    """Its id and its place in the line are lower than those of jobs that are long done."""
    journey.work("--concurrency", "2")
    web = journey.web()
    new = NewJob(kind="journey.tick", payload={})
    with journey.engine.connect() as psql, psql.begin():
        [late] = transitions.enqueue(psql, [new], producer="app", actor="app", via="python")
        others = journey.enqueue("journey.tick", count=50)
        journey.wait_for_end(others)
        page = web.ask("GET", "/api/jobs?limit=5").body
        assert late.id < min(others)
    journey.wait_for_status(late.id, "succeeded", within=10)

    seen = [item["id"] for item in page["items"]]
    while page["next"]:
        page = web.ask("GET", f"/api/jobs?limit=20&before={page['next']}").body
        seen += [item["id"] for item in page["items"]]
    assert seen == [*reversed(others), late.id]
    events = web.ask("GET", f"/api/jobs/{late.id}/events").body["items"]
    assert [event["event"] for event in events] == ["enqueued", "claimed", "succeeded"]
    assert f"/jobs/{late.id}" in web.ask("GET", "/events").body
    stand(journey)
