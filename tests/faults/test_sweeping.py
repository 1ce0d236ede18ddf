"""What is lost with its holder is found again, also when nobody seems to have the time for it."""

from __future__ import annotations

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until

BY_SWEEPER = """
SELECT extract(epoch FROM e.created_at - c.created_at)::float8
FROM job_events e JOIN job_events c ON c.lease_token = e.lease_token AND c.event = 'claimed'
WHERE e.event = 'lease_expired' AND e.job_id = %(id)s
"""


def sweep(journey: Journey) -> str:
    command = journey.processes.start("sweep", "flask", "--app", "wsgi", "jobs", "sweep")
    assert command.wait() == 0, command.said()
    return command.said()


@pytest.mark.slow
def test_orphan_is_queued_again_though_no_thread_is_free_and_by_hand_without_any_worker(
    journey: Journey,
) -> None:
    busy = journey.work("--lease", "2", "--concurrency", "2")
    long_jobs = journey.enqueue("journey.gate", count=2)
    for job in long_jobs:
        journey.wait_for_start(job)
    doomed = journey.work("--lease", "2", "--concurrency", "1")
    orphan = journey.enqueue_one("journey.gate")
    journey.wait_for_start(orphan)

    doomed.kill()
    row = journey.wait_for_status(orphan, "queued")

    assert (row.attempts, row.error_class) == (1, "LeaseLost")
    # The lease of 2 s, renewed once at most, a poll of 0.5 s; the rest is for a slow machine.
    assert 2 <= journey.one(BY_SWEEPER, id=orphan) < 12
    assert len(journey.ledger.starts()) == 3, "a thread was free"

    busy.kill()
    overdue = "SELECT count(*) FROM jobs WHERE lease_expires_at < clock_timestamp()"
    until(lambda: journey.one(overdue) == 2, "both leases run out, nobody is there")
    web = journey.web()
    shown = web.ask("GET", f"/api/jobs/{long_jobs[0]}").body
    assert shown["status"] == "running"
    assert shown["lease_expires_at"] < web.ask("GET", "/api/stats").body["as_of"]
    assert "overdue" in web.ask("GET", f"/jobs/{long_jobs[0]}").body
    said = sweep(journey)

    assert f"job {long_jobs[0]} journey.gate: lost by worker:" in said
    assert said.splitlines()[-1] == "2 jobs taken back"
    assert sweep(journey).splitlines()[-1] == "0 jobs taken back"
    for job in (*long_jobs, orphan):
        journey.open(job, attempt=2)
    journey.work("--concurrency", "4")
    journey.wait_for_end([*long_jobs, orphan])
    assert {journey.job(job).attempts for job in (*long_jobs, orphan)} == {2}
    stand(journey)
