"""SQLite: one worker process, no job taken twice, and nobody hears of a locked database."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.live.checks import stand
from tests.live.fixtures import opened
from tests.live.journey import Journey, Web
from tests.live.processes import until
from tests.sqlite import migrated


@pytest.fixture
def journey(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journey]:
    """A queue on a file of the test's own."""
    with opened(request, migrated(tmp_path / "queue.db"), tmp_path) as journey:
        yield journey


def test_a_second_worker_does_not_start_and_no_job_is_taken_twice(journey: Journey) -> None:
    first = journey.work("--concurrency", "8")
    second = journey.work("--concurrency", "8", ready=False)
    several = journey.work("--processes", "2", ready=False)
    jobs = journey.enqueue("journey.tick", count=500)

    assert second.wait() != 0
    assert f"another flask work (process {first.pid}) has" in second.said()
    assert several.wait() != 0
    assert "SQLite takes one worker process" in several.said()
    journey.wait_for_end(jobs)
    assert journey.ledger.starts_by_job() == dict.fromkeys(jobs, 1)

    first.kill()
    third = journey.work()
    stand(journey, accepted=jobs)
    assert third.is_running


@pytest.mark.slow
def test_no_second_worker_starts_beside_the_child_of_a_killed_supervisor(journey: Journey) -> None:
    group = journey.work("--max-jobs", "1000", "--concurrency", "1", "--grace", "30")
    job = journey.enqueue_one("journey.gate")
    journey.wait_for_start(job)
    group.send(signal.SIGKILL)
    until(lambda: "supervisor is gone" in group.said(), "the child notices")

    second = journey.work(ready=False)

    assert second.wait() != 0
    assert "another flask work" in second.said()
    journey.open(job)
    journey.wait_for_status(job, "succeeded")
    until(lambda: "stopped" in group.said(), "the child ends")
    stand(journey, accepted=[job])


@pytest.mark.slow
def test_writers_beside_a_long_reader_wait_a_little_and_never_fail(journey: Journey) -> None:
    crowd(journey, seconds=4)


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_five_minutes_of_writers_beside_a_long_reader(journey: Journey) -> None:
    crowd(journey, seconds=300)


def crowd(journey: Journey, *, seconds: float) -> None:
    """Fifty creates a second, pages, retention and a renewed lease, beside an old snapshot."""
    web = journey.web()
    # Its lease lasts as long as a second and a half of silence.
    worker = journey.work("--concurrency", "4", "--lease", "3s")
    held = journey.enqueue_one("journey.tick", {"ms": (seconds + 1) * 1000})
    journey.wait_for_start(held)
    answers: Counter[int] = Counter()
    created: list[int | None] = []
    over = threading.Event()

    def create() -> float:
        answer = web.ask("POST", "/api/jobs", {"kind": "journey.tick", "payload": {}})
        answers[answer.status] += 1
        created.append(answer.body.get("id"))
        return 1 / 50

    def purge() -> float:
        done = journey.processes.start("purge", "flask", "--app", "wsgi", "purge", "--succeeded=1s")
        assert done.wait() == 0, done.said()
        return 1.0

    with journey.engine.connect().execution_options(isolation_level="REPEATABLE READ") as reader:
        reader.exec_driver_sql("SELECT count(*) FROM jobs").all()
        rhythms = (create, create, lambda: look(web, "/api/jobs?limit=50", answers), purge)
        with ThreadPoolExecutor(len(rhythms)) as pool:
            running = [pool.submit(repeat, rhythm, over) for rhythm in rhythms]
            over.wait(seconds)
            over.set()
            for each in running:
                each.result()
        assert reader.exec_driver_sql("SELECT count(*) FROM jobs").scalar_one() == 1
        reader.rollback()

    assert set(answers) <= {200, 201}
    assert len(set(created)) == len(created) == answers[201]
    # Retention may have removed its row by now.
    until(lambda: "succeeded" in journey.events(held), "the held job ends")
    until(lambda: not unfinished(journey), "all jobs end")
    assert succeeded(journey) == Counter([held, *created])
    assert journey.events(held)[:3] == ["enqueued", "claimed", "succeeded"]
    assert not re.search("locked|OperationalError", worker.said() + web.process.said())
    stand(journey)


def succeeded(journey: Journey) -> Counter[int]:
    """How often each job has succeeded: the ledger knows those that were purged as well."""
    ends = journey.rows("SELECT job_id FROM job_events WHERE event = 'succeeded'")
    return Counter(row.job_id for row in ends)


def unfinished(journey: Journey) -> int:
    return int(journey.one("SELECT count(*) FROM jobs WHERE status IN ('queued', 'running')"))


def look(web: Web, path: str, answers: Counter[int]) -> float:
    answers[web.ask("GET", path).status] += 1
    return 0.3


def repeat(rhythm: Callable[[], float], over: threading.Event) -> None:
    while not over.is_set():
        time.sleep(rhythm())
