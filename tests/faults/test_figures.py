"""What the web says in figures is the database's, whichever of its processes answers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until
from tests.scraped import Scraped, scraped

COUNTS = "SELECT status, count(*) AS jobs FROM jobs GROUP BY status"


@pytest.mark.slow
def test_every_web_process_answers_with_the_figures_of_the_database(journey: Journey) -> None:
    web = journey.web(workers=2, threads=2)
    worker = journey.work("--concurrency", "2")
    jobs = journey.enqueue("journey.tick", count=30)
    failed = journey.enqueue("journey.flaky", {"fail_first": 9}, count=3, max_attempts=1)
    waiting = journey.enqueue("journey.tick", count=7, delay_s=3600.0)
    journey.wait_for_end([*jobs, *failed])

    def children() -> set[int]:
        pid = web.process.pid
        return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}

    def figures() -> dict[str, int]:
        told = web.ask("GET", "/api/stats").body["status"]
        return {status: count["count"] for status, count in told.items() if count["count"]}

    def scrapes_without(silent: int) -> list[Scraped]:
        os.kill(silent, signal.SIGSTOP)
        try:
            return [scraped(web.ask("GET", "/metrics").body) for _ in range(5)]
        finally:
            os.kill(silent, signal.SIGCONT)

    def figures_without(silent: int) -> list[dict[str, int]]:
        """What the other process says: one that is stopped takes no connection."""
        os.kill(silent, signal.SIGSTOP)
        try:
            return [figures() for _ in range(5)]
        finally:
            os.kill(silent, signal.SIGCONT)

    counted = {row.status: row.jobs for row in journey.rows(COUNTS)}
    assert counted == {"succeeded": 30, "queued": len(waiting), "failed": 3}
    until(lambda: len(children()) == 2, "there are two")
    killed, left = children()
    assert figures_without(killed) == figures_without(left) == [counted] * 5
    scrapes = [one for silent in (killed, left) * 2 for one in scrapes_without(silent)]
    os.kill(killed, signal.SIGKILL)
    until(lambda: killed not in children() and len(children()) == 2, "another takes its place")
    assert figures_without(left) == [counted] * 5
    # Counters never fall, whoever answers, also the one that has just begun.
    scrapes += scrapes_without(left)
    told = [{s: n for s, n in one.by("queue_jobs", "status").items() if n} for one in scrapes]
    assert told == [counted] * 25
    counters = [one.of("queue_events_total", event="enqueued") for one in scrapes]
    assert counters == sorted(counters)
    assert worker.stop(signal.SIGTERM) == 0
    stand(journey)
