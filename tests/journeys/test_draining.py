"""A worker that is asked to drain: takes nothing more, finishes what it runs, and ends well."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.faults.test_supervision import started, supervised
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.page import page
from tests.live.processes import until

STOPPED = "SELECT scope, reason FROM job_events WHERE event = 'worker_stopped'"
SAYS_SO = """
SELECT count(*) FROM job_events
WHERE event = 'worker_seen' AND scope = %(name)s AND data ? 'drains' AND data->>'slots' = '0'
"""


def test_it_ends_when_its_job_does_and_its_successor_is_not_asked(journey: Journey) -> None:
    # Without any grace: a drain has all the time that its jobs take.
    worker, web = journey.work("--concurrency", "2", "--grace", "0"), journey.web()
    running = journey.enqueue_one("journey.gate")
    journey.wait_for_start(running)
    name = journey.job(running).locked_by

    assert "Ask to drain" in page(web, "GET", f"/workers/{quote(name)}").text
    question = page(web, "GET", f"/workers/drain?worker={quote(name)}").text
    assert "finishes the 1 job that it holds" in question
    form = {"worker": name, "reason": "host goes\naway"}
    assert page(web, "POST", "/workers/drain", form).status == 303
    worker.wait_until_it_says("takes nothing more: asked to drain by user:local: host goes away")
    later = journey.enqueue("journey.tick", count=20)
    until(lambda: journey.one(SAYS_SO, name=name), "it says that it drains")
    shown = page(web, "GET", f"/workers/{quote(name)}").text
    assert "It drains" in shown
    assert "Ask to drain" not in shown
    again = web.ask("POST", f"/api/workers/{quote(name)}/drain", {"reason": "once more"})
    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.body["reason"] == "host goes\naway"
    assert worker.is_running

    journey.open(running)
    assert worker.wait() == 0, worker.said()

    assert "stopped: asked to drain by user:local: host goes away" in worker.said()
    assert (journey.job(running).status, journey.job(running).attempts) == ("succeeded", 1)
    assert {journey.job(job).attempts for job in later} == {0}, "it has claimed nothing more"
    stopped = (name, "asked to drain by user:local: host goes away")
    assert journey.rows(STOPPED) == [stopped]
    assert web.ask("POST", f"/api/workers/{quote(name)}/drain", {"reason": "r"}).status == 409
    journey.work("--concurrency", "2")
    journey.wait_for_end(later)
    stand(journey)


@pytest.mark.slow
@pytest.mark.postgresql("several worker processes")
def test_a_supervisor_starts_a_fresh_process_in_the_place_of_one_that_drained(
    journey: Journey,
) -> None:
    group, web = supervised(journey, 2, "--concurrency=1", "--grace=20"), journey.web()
    gated = journey.enqueue("journey.gate", count=2)
    starts = [journey.wait_for_start(job) for job in gated]
    name = journey.job(gated[0]).locked_by

    asked = web.ask("POST", f"/api/workers/{quote(name)}/drain", {"reason": "it leaks"})
    assert (asked.status, asked.body["worker"]) == (200, name)
    group.wait_until_it_says("takes nothing more: asked to drain by user:local: it leaks")
    later = journey.enqueue("journey.gate", count=1)
    journey.open(gated[0])

    # Its own job first, then a process that nobody has asked.
    journey.wait_for_status(gated[0], "succeeded")
    third = journey.wait_for_start(later[0])
    assert third.pid not in {start.pid for start in starts}
    assert len(started(group)) == 3
    assert group.said().count("takes nothing more") == 1
    for job in (gated[1], later[0]):
        journey.open(job)
    journey.wait_for_end([*gated, *later])
    assert group.stop() == 0, group.said()
    stand(journey)


@pytest.mark.slow
def test_a_signal_does_not_wait_for_the_drain(journey: Journey) -> None:
    worker, web = journey.work("--grace", "0"), journey.web()
    job = journey.enqueue_one("journey.polite")
    journey.wait_for_start(job)
    name = journey.job(job).locked_by

    assert web.ask("POST", f"/api/workers/{quote(name)}/drain", {"reason": "r"}).status == 200
    worker.wait_until_it_says("takes nothing more")

    assert worker.stop() == 0, worker.said()
    assert (journey.job(job).status, journey.job(job).attempts) == ("queued", 0)
    stand(journey)
