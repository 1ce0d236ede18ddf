"""``http.request`` against a receiver that fails a third of the calls and sometimes hangs."""

from __future__ import annotations

import pytest

from queueapp.jobs import transitions
from queueapp.jobs.transitions import NewJob
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.receiver import BadDay

SETTINGS = {
    "QUEUE_HTTP_ALLOWED_HOSTS": "127.0.0.1",
    "QUEUE_HTTP_ALLOW_PRIVATE": "1",
    "QUEUE_BACKOFF_BASE": "0.05s",
    "QUEUE_BACKOFF_CAP": "0.5s",
}


def enqueue(journey: Journey, day: BadDay, count: int) -> list[int]:
    base = f"http://127.0.0.1:{day.port}/hook"
    new = [
        NewJob(
            kind="http.request",
            payload={"url": f"{base}/{number}", "json": {"n": number}, "timeout": 2},
            max_attempts=25,
        )
        for number in range(count)
    ]
    with journey.engine.begin() as connection:
        made = transitions.enqueue(connection, new, producer="app", actor="app", via="python")
    return [job.id for job in made]


@pytest.mark.slow
def test_1000_webhooks_reach_a_receiver_that_fails_a_third_of_the_calls(
    journey: Journey,
) -> None:
    with BadDay() as day:
        journey.workers(2, "--concurrency", "16", **SETTINGS)
        jobs = enqueue(journey, day, 1_000)
        journey.wait_for_end(jobs, within=100)

    rows = journey.rows("SELECT id, status, attempts, result, payload FROM jobs ORDER BY id")
    assert [row.id for row in rows] == jobs
    for row in rows:
        path = f"/hook/{row.payload['json']['n']}"
        assert (row.status, row.result["status"]) == ("succeeded", 200)
        assert day.calls[path] == [f"job-{row.id}"] * row.attempts
        assert day.delivered[path] >= 1
    calls = sum(len(keys) for keys in day.calls.values())
    assert calls > 1.4 * len(jobs), "a third of the calls should have failed"
    stand(journey, accepted=jobs)
