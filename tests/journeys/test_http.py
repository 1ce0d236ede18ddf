"""From an HTTP request to a finished row, through gunicorn and a worker, and back."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.live.checks import stand
from tests.live.journey import Answer, Journey, Web
from tests.live.processes import until


def wait_until_shown(web: Web, job: int, status: str) -> dict[str, Any]:
    """Ask until the job is shown in ``status``."""

    def shown() -> Any:
        body = web.ask("GET", f"/api/jobs/{job}").body
        return body if body["status"] == status else None

    found: dict[str, Any] = until(shown, f"job {job} is shown as {status}")
    return found


def shown_events(web: Web, job: int) -> list[str]:
    items = web.ask("GET", f"/api/jobs/{job}/events").body["items"]
    return [item["event"] for item in items]


def test_job_created_over_http_is_run_shown_and_run_again_when_retried(journey: Journey) -> None:
    web = journey.web()
    worker = journey.work()

    created = web.ask("POST", "/api/jobs", {"kind": "journey.tick", "payload": {"ms": 5}})
    job = created.body["id"]
    shown = wait_until_shown(web, job, "succeeded")

    assert created.status == 201
    assert shown["result"] == {"attempt": 1, "pid": worker.pid}
    assert shown["finished_at"] > shown["started_at"] >= shown["created_at"]
    assert shown_events(web, job) == ["enqueued", "claimed", "succeeded"]

    wanted = {"kind": "journey.flaky", "payload": {"fail_first": 1}, "max_attempts": 1}
    job = web.ask("POST", "/api/jobs", wanted).body["id"]
    wait_until_shown(web, job, "failed")
    answer = web.ask("POST", f"/api/jobs/{job}/retry")
    journey.wait_for_more_starts(3)
    shown = wait_until_shown(web, job, "failed")

    assert answer.status == 200
    # Attempts are counted anew, so the only one of the new life was the first again.
    assert (shown["attempts"], shown["error_class"]) == (1, "RuntimeError")
    assert shown_events(web, job) == [
        "enqueued", "claimed", "failed", "requeued", "claimed", "failed",
    ]  # fmt: skip
    stand(journey, accepted=[job])


def test_progress_is_seen_while_the_job_runs_and_cancel_stops_it(journey: Journey) -> None:
    web = journey.web()
    journey.work()
    job = web.ask("POST", "/api/jobs", {"kind": "journey.polite", "payload": {"seconds": 50}}).body[
        "id"
    ]

    def progress() -> int:
        body = web.ask("GET", f"/api/jobs/{job}").body
        return int(body["progress"] or 0) if body["status"] == "running" else 0

    first = until(progress, "progress is shown")
    until(lambda: progress() > first, "progress moves on")
    answer = web.ask("POST", f"/api/jobs/{job}/cancel")
    shown = wait_until_shown(web, job, "cancelled")

    assert (answer.status, answer.body["status"]) == (200, "running")
    assert answer.body["cancel_requested_at"] is not None
    assert shown["attempts"] == 1
    assert len(journey.ledger.ends(job)) == 1, "the handler was not stopped"
    assert shown_events(web, job) == ["enqueued", "claimed", "cancel_requested", "cancelled"]
    stand(journey, accepted=[job])


@pytest.mark.slow
def test_200_posts_at_once_with_one_key_make_one_job(journey: Journey) -> None:
    web = journey.web(workers=2)
    journey.work()

    def post(key: str) -> Answer:
        wanted = {"kind": "journey.tick", "payload": {"ms": 1}, "idempotency_key": key}
        return web.ask("POST", "/api/jobs", wanted)

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(post, ["order-0"] * 200))
        mixed = list(pool.map(post, [f"order-{number % 10 + 1}" for number in range(100)]))

    assert Counter(answer.status for answer in answers) == {201: 1, 200: 199}
    assert len({answer.body["id"] for answer in answers}) == 1
    assert Counter(answer.status for answer in mixed) == {201: 10, 200: 90}
    jobs = sorted({answer.body["id"] for answer in answers + mixed})
    assert len(jobs) == 11
    journey.wait_for_end(jobs)
    assert journey.one("SELECT count(*) FROM job_events WHERE event = 'enqueued'") == 11
    assert sorted(line.job for line in journey.ledger.starts()) == jobs
    stand(journey, accepted=jobs)
