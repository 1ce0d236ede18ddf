"""PostgreSQL restarts and dies under load: workers come back by themselves, nothing is lost."""

from __future__ import annotations

import signal
import sys
import time

import pytest
from sqlalchemy.exc import DBAPIError

from tests.live.checks import stand
from tests.live.cluster import Cluster
from tests.live.journey import Journey
from tests.live.processes import until


def enqueued(journey: Journey, key: str) -> list[int]:
    """Create a job however long it takes; keyed, so that asking again doubles nothing."""

    def ask() -> list[int] | None:
        try:
            return journey.enqueue("journey.tick", key=key, request_hash="kind=00000000")
        except DBAPIError:
            return None

    return until(ask, "the database takes a job")


@pytest.mark.slow
def test_workers_go_on_after_the_database_has_restarted_under_load(
    cluster_journey: Journey, cluster: Cluster
) -> None:
    journey = cluster_journey
    # A lease of two minutes: what a lost answer left behind is found by its holder, or never.
    workers = journey.workers(2, "--concurrency", "8", "--lease", "120")
    jobs: list[int] = []
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        stream = journey.enqueue("journey.tick", {"ms": 100}, count=600)
        journey.wait_for_more_starts(len(jobs) + 50)

        cluster.end(number)
        begun = len(journey.ledger.starts())
        cluster.start_again()

        assert begun < len(jobs + stream), "all was done before the restart"
        jobs += stream + enqueued(journey, f"after {number}")
        journey.wait_for_end(jobs)

    assert all(worker.is_running for worker in workers)
    assert journey.rows("SELECT status, attempts, count(*) FROM jobs GROUP BY 1, 2") == [
        ("succeeded", 1, len(jobs))
    ]
    assert sorted(line.job for line in journey.ledger.starts()) == jobs
    stand(journey, accepted=jobs)


# What a worker does takes a second of the server's, so that the server can die in the middle of it.
SLOWLY = """
CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' OR NEW.status <> OLD.status THEN PERFORM pg_sleep(1); END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER slowly BEFORE UPDATE OR DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION slowly()
"""
CLEANER = ("flask", "--app", "wsgi", "work", "--concurrency", "0")
UNDER_WAY = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


@pytest.mark.slow
def test_a_restart_amid_a_claim_a_settle_and_a_purge_is_made_good_by_itself(
    cluster_journey: Journey, cluster: Cluster
) -> None:
    journey = cluster_journey
    web = journey.web()
    worker = journey.work("--concurrency", "1", "--lease", "120", QUEUE_KEEP_SUCCEEDED="1s")
    cluster.say(SLOWLY)

    def under_way(what: str) -> None:
        until(lambda: journey.one(UNDER_WAY), what)

    job = journey.enqueue_one("journey.gate")
    under_way("a claim")
    cluster.restart(signal.SIGQUIT)
    journey.wait_for_start(job)

    journey.open(job)
    under_way("a settle")
    cluster.end(signal.SIGKILL)
    refused = web.ask("POST", "/api/jobs", {"kind": "journey.tick"})
    worker.wait_until_it_says("pump: database error OperationalError")
    late = journey.processes.start("work", *CLEANER)
    late.wait_until_it_says("the database takes no connection yet")
    cluster.start_again()
    assert journey.wait_for_status(job, "succeeded").attempts == 1
    created = web.ask("POST", "/api/jobs", {"kind": "journey.tick"})
    journey.wait_for_status(created.body["id"], "succeeded")
    late.wait_until_it_says("worker .* 0 threads")

    cleaner = journey.processes.start("work", *CLEANER, QUEUE_KEEP_SUCCEEDED="1s")
    under_way("a purge")
    cluster.restart(signal.SIGINT)
    until(lambda: not journey.rows("SELECT FROM jobs"), "what is old is removed")

    assert refused.status == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert created.status == 201
    assert [worker.is_running, late.is_running, cleaner.is_running] == [True] * 3
    assert len(journey.ledger.starts(job)) == 1
    assert journey.events(job) == ["enqueued", "claimed", "succeeded", "purged"]
    cluster.say("DROP FUNCTION slowly() CASCADE")
    stand(journey)


OUTAGE_S = 60


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_outage_of_a_minute_is_over_within_seconds_of_its_end(
    cluster_journey: Journey, cluster: Cluster
) -> None:
    journey = cluster_journey
    web = journey.web()
    workers = journey.workers(2, "--concurrency", "4", "--lease", "120")
    through = journey.enqueue("journey.gate", count=6)
    journey.wait_for_more_starts(6)

    cluster.end(signal.SIGQUIT)
    for job in through[:3]:
        journey.open(job)
    statuses = set()
    down = time.monotonic()
    while time.monotonic() - down < OUTAGE_S:
        statuses.add(web.ask("POST", "/api/jobs", {"kind": "journey.tick"}).status)
        time.sleep(0.5)
    cluster.start_again()
    up = time.monotonic()
    jobs = enqueued(journey, "afterwards")
    journey.wait_for_start(jobs[0])
    took = time.monotonic() - up
    for job in through[3:]:
        journey.open(job)
    journey.wait_for_end(through)

    sys.stdout.write(f"the first start came {took:.1f} s after an outage of {OUTAGE_S} s\n")
    assert took < 30
    assert statuses == {503}
    assert all(worker.is_running for worker in workers)
    assert journey.rows("SELECT status, attempts, count(*) FROM jobs GROUP BY 1, 2") == [
        ("succeeded", 1, 7)
    ]
    # With all its threads: eight at once need both workers' four.
    together = journey.enqueue("journey.gate", count=8)
    journey.wait_for_more_starts(15)
    for job in together:
        journey.open(job)
    journey.wait_for_end(together)
    stand(journey, accepted=jobs)
