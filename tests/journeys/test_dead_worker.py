"""A worker dies with a long lease: the console shows it, and a person takes its jobs back."""

from __future__ import annotations

from urllib.parse import quote

from tests.console.test_workers import claims_in
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.page import page
from tests.live.processes import until

_GONE = "no connection of it is open in the database"

WORK = ("--lease", "300", "--concurrency", "2")


def test_what_a_killed_worker_held_runs_again_when_a_person_says_so(journey: Journey) -> None:
    web = journey.web()
    doomed = journey.work(*WORK)
    jobs = journey.enqueue("journey.gate", count=2)
    for job in jobs:
        journey.wait_for_start(job)
    holder = journey.job(jobs[0]).locked_by
    address = f"/workers/{quote(holder)}"

    alive = page(web, "GET", address).text
    doomed.kill()
    until(lambda: _GONE in page(web, "GET", address).text, "its connections are missed")
    journey.work(*WORK)
    question = page(web, "GET", f"/workers/release?worker={quote(holder)}").text
    form = {"worker": holder, "claim": claims_in(question), "reason": "killed"}
    answer = page(web, "POST", "/workers/release", form)

    assert "connections of it are open in the database" in alive
    assert "They may run twice." in question
    assert answer.status == 303
    for job in jobs:
        journey.wait_for_start(job, attempt=2)
        journey.open(job, attempt=2)
        assert journey.wait_for_status(job, "succeeded").attempts == 2
        assert "released" in journey.events(job)
    stand(journey)
