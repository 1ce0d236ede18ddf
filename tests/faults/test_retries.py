"""Failed attempts come back late enough, spread out, and exactly as often as they may."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until
from tests.live.strictly import either_way

MISBEHAVING = "tests.live.kinds,tests.live.misbehaving"

CAP_S = 3600.0
JITTER = 0.2

RETRIES = """
SELECT job_id, attempt,
  extract(epoch FROM (data->>'available_at')::timestamptz - created_at)::float8 AS wait_s
FROM job_events WHERE event = 'retry_scheduled' ORDER BY job_id, attempt
"""

# As if it had failed so often: the ledger is told, so that it still leads to the row.
AGE = """
WITH aged AS (UPDATE jobs SET attempts = %(attempts)s WHERE id = %(id)s RETURNING id, kind)
INSERT INTO job_events (job_id, kind, event, from_status, to_status, actor, data)
SELECT id, kind, 'rescheduled', 'queued', 'queued', 'cli:test',
  jsonb_build_object('attempts', %(attempts)s::int) FROM aged
"""


def test_backoff_of_any_number_of_failures_ends_at_its_cap(journey: Journey) -> None:
    aged: dict[int, int] = {}
    for attempts in (1, 29, 30, 37, 38, 43, 44, 63, 64, 1_000, 1_023, 1_024, 1_100, 4_998):
        job = journey.enqueue_one(
            "journey.flaky", {"fail_first": 10_000}, max_attempts=5_000, delay_s=0.5
        )
        journey.rows(AGE + " RETURNING id", id=job, attempts=attempts)
        aged[job] = attempts
    # A base beyond what any clock, interval or power of two can take.
    journey.work(QUEUE_BACKOFF_BASE=f"{'9' * 300}d", QUEUE_BACKOFF_CAP="1h")
    until(lambda: len(journey.rows(RETRIES)) == len(aged), "each has failed once")

    waits = {row.job_id: row.wait_s for row in journey.rows(RETRIES)}
    assert all(
        CAP_S * (1 - JITTER) - 1 <= wait <= CAP_S * (1 + JITTER) + 1 for wait in waits.values()
    ), waits
    for job, attempts in aged.items():
        row = journey.job(job)
        assert (row.status, row.attempts) == ("queued", attempts + 1)
        assert row.error_class == "RuntimeError"
    stand(journey)


@pytest.mark.slow
def test_jobs_that_failed_together_do_not_come_back_together(journey: Journey) -> None:
    base, rounds, count = 1.0, 3, 1_000
    jobs = journey.enqueue(
        "journey.flaky", {"fail_first": rounds}, count=count, max_attempts=rounds + 1
    )
    settings = {"QUEUE_BACKOFF_BASE": f"{base:g}s"}
    journey.workers(2, "--concurrency", "10", **settings)
    journey.wait_for_end(jobs)

    by_round: dict[int, list[float]] = {number: [] for number in range(1, rounds + 1)}
    for row in journey.rows(RETRIES):
        by_round[row.attempt].append(row.wait_s)
    for number, waits in by_round.items():
        middle = base * 2 ** (number - 1)
        # The events of a batch are written a moment after its due times were drawn.
        assert len(waits) == count
        assert middle * (1 - JITTER) - 0.1 <= min(waits)
        assert max(waits) <= middle * (1 + JITTER)
        # Spread over the whole width, in no two rounds alike.
        tenths = statistics.quantiles(waits, n=10)
        assert tenths[-1] - tenths[0] > middle * JITTER
        assert max(tenths[n + 1] - tenths[n] for n in range(8)) < middle * JITTER
    for one, other in ((1, 2), (2, 3)):
        assert abs(statistics.correlation(by_round[one], by_round[other])) < 0.2
    assert {row.status for row in journey.rows("SELECT status FROM jobs")} == {"succeeded"}
    stand(journey, accepted=jobs)


@either_way
def test_job_starts_exactly_as_often_as_it_may(journey: Journey, order: tuple[str, ...]) -> None:
    limits = dict.fromkeys((1, 2, 3), 0)
    doomed = journey.work("--lease", "2", "--concurrency", "6", *order, QUEUE_HANDLERS=MISBEHAVING)
    for limit in limits:
        wanted: dict[str, Any] = {"fail_first": 100}
        limits[limit] = journey.enqueue_one("journey.flaky", wanted, max_attempts=limit)
    # An error, then a lost lease, then an error; and the last of two attempts lost.
    mixed = journey.enqueue_one("journey.fails_at_the_gate", max_attempts=3)
    last = journey.enqueue_one("journey.fails_at_the_gate", max_attempts=2)
    for job in (mixed, last):
        journey.open(job, attempt=1)
        journey.wait_for_start(job, attempt=2)
    journey.wait_for_end(list(limits.values()))
    doomed.kill()
    journey.work("--lease", "2", *order, QUEUE_HANDLERS=MISBEHAVING)
    journey.open(mixed, attempt=3)
    for job in (mixed, last):
        journey.wait_for_status(job, "failed")

    for limit, job in limits.items():
        assert len(journey.ledger.starts(job)) == limit
        assert (journey.job(job).status, journey.job(job).attempts) == ("failed", limit)
    assert (len(journey.ledger.starts(mixed)), journey.job(mixed).attempts) == (3, 3)
    assert (len(journey.ledger.starts(last)), journey.job(last).attempts) == (2, 2)
    assert journey.events(mixed) == [
        "enqueued", "claimed", "retry_scheduled", "claimed", "lease_expired", "retry_scheduled",
        "claimed", "failed",
    ]  # fmt: skip
    assert journey.events(last)[-2:] == ["lease_expired", "failed"]
    stand(journey)


def test_limit_that_is_none_is_refused_by_name(journey: Journey) -> None:
    web = journey.web()

    for value in (0, -1, 2**31, 2**63, 1.5, "3", True, None):
        wanted = {"kind": "journey.tick", "max_attempts": value}
        answer = web.ask("POST", "/api/jobs", wanted)
        assert answer.status == 422, value
        assert [error["pointer"] for error in answer.body["errors"]] == ["/max_attempts"]

    assert journey.one("SELECT count(*) FROM jobs") == 0
    stand(journey)
