"""What the web says in figures is the database's, whichever of its processes answers."""

from __future__ import annotations

import os
import signal
import time

import pytest

from queueapp.shared import LIFE_S
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until
from tests.live.raw import children_of
from tests.scraped import Scraped, scraped

COUNTS = "SELECT status, count(*) AS jobs FROM jobs GROUP BY status"
# Of two processes one may tell what it read so much earlier, and a little for the machine.
APART_S = LIFE_S + 1.0


@pytest.mark.slow
def test_every_web_process_answers_with_the_figures_of_the_database(journey: Journey) -> None:
    web = journey.web(workers=2, threads=2)
    worker = journey.work("--concurrency", "2")
    jobs = journey.enqueue("journey.tick", count=30)
    failed = journey.enqueue("journey.flaky", {"fail_first": 9}, count=3, max_attempts=1)
    waiting = journey.enqueue("journey.tick", count=7, delay_s=3600.0)
    journey.wait_for_end([*jobs, *failed])

    def children() -> set[int]:
        return set(children_of(web.process))

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


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_processes_that_come_and_go_tell_the_figures_of_the_database(journey: Journey) -> None:
    """gunicorn's ``--max-requests`` ends each after a few answers, and the test kills some."""
    web = journey.web(workers=4, threads=2, GUNICORN_CMD_ARGS="--max-requests 20")
    worker = journey.work("--concurrency", "2")
    seen, jobs, processes = [], [], set()

    for turn in range(200):
        if turn % 10 == 0:
            jobs += journey.enqueue("journey.tick", count=20)
        if turn % 50 == 25:
            os.kill(children_of(web.process)[0], signal.SIGKILL)
        answer = web.ask("GET", "/metrics")
        assert answer.status == 200
        seen.append((time.monotonic(), scraped(answer.body)))
        processes.update(children_of(web.process))
    journey.wait_for_end(jobs)
    # A line of the ledger carries the sums on, once a minute: what has ended is in one by then.
    until(
        lambda: (
            scraped(web.ask("GET", "/metrics").body).of("queue_events_total", event="succeeded")
            >= len(jobs)
        ),
        "the counters tell of all",
        within=150,
    )
    # Whoever read them a moment before that does not tell it any more.
    time.sleep(APART_S)
    seen += [(time.monotonic(), scraped(web.ask("GET", "/metrics").body)) for _ in range(40)]

    counted = {row.status: row.jobs for row in journey.rows(COUNTS)}
    for _, last in seen[-40:]:
        assert {s: n for s, n in last.by("queue_jobs", "status").items() if n} == counted
    assert len(processes) > 8
    for event in ("enqueued", "succeeded"):
        told = [(at, one.of("queue_events_total", event=event)) for at, one in seen]
        falls = [
            (before, after)
            for place, (at, before) in enumerate(told)
            for later, after in told[place:]
            if later > at + APART_S and after < before
        ]
        assert falls == []
    assert worker.stop(signal.SIGTERM) == 0
    stand(journey)
