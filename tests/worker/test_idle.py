"""A worker with nothing to do: what it asks, what wakes it, and until when it sleeps."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from flask import Flask
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from queueapp.connections import listen_connection
from queueapp.jobs import transitions
from queueapp.jobs.transitions import NewJob
from queueapp.worker import Wakeup
from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until
from tests.live.proxy import Proxy
from tests.worker.conftest import Bench, Enqueue, Statements
from tests.worker.test_pump import claimed, finish

# Nobody looks on his own accord for so long, but for the pump each thirty seconds.
NEVER = "60s"
SOON_S = 8.0
LISTENER = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'queueapp-listen%%'
"""


@pytest.mark.postgresql("round trips")
def test_however_many_slots_an_idle_worker_has_a_tick_of_all_its_loops_is_one_statement(
    bench: Bench,
) -> None:
    worker = bench.worker(concurrency=50)
    for _ in range(2):
        worker.housekeeping.tick()
        worker.keeper.tick()
    statements = Statements(bench.engine)

    worker.housekeeping.tick()
    worker.keeper.tick()

    assert len(statements.sent) == 1


@pytest.mark.postgresql("LISTEN")
def test_a_listener_that_was_cut_looks_for_what_it_has_not_heard(app: Flask) -> None:
    opened: list[psycopg.Connection[Any]] = []
    looks: list[float] = []

    def connect() -> psycopg.Connection[Any]:
        opened.append(listen_connection(app, "listen"))
        return opened[-1]

    wakeup = Wakeup(connect, lambda: looks.append(time.monotonic()))
    wakeup.tick()
    opened[0].close()
    before = len(looks)

    with pytest.raises(psycopg.Error):
        wakeup.tick()
    wakeup.tick()

    assert (len(opened), len(looks)) == (2, before + 1)
    wakeup.close()


@pytest.mark.postgresql("LISTEN")
def test_a_claim_that_finds_no_job_has_housekeeping_see_when_the_next_is_due(
    bench: Bench, enqueue: Enqueue
) -> None:
    worker = bench.worker(poll=60.0)
    worker.housekeeping.tick()
    woken: list[bool] = []
    worker.housekeeping.wake = lambda: woken.append(True)
    enqueue(delay_s=3600)

    worker.pump.hear()
    claimed(worker)
    assert woken == [True]
    statements = Statements(bench.engine)
    # What was just claimed comes first.
    soon = worker.housekeeping.tick()
    assert 0 < soon < 1
    time.sleep(soon)
    worker.housekeeping.tick()
    assert 3500 < worker.pump._due_at - time.monotonic() <= 3600
    # The other duties wait for the poll, and a look that nobody has caused makes nobody hurry.
    assert len(statements.sent) == 1
    claimed(worker)
    assert woken == [True]


@pytest.mark.postgresql("LISTEN")
def test_a_retry_has_housekeeping_see_when_it_is_due(bench: Bench, enqueue: Enqueue) -> None:
    worker = bench.worker()
    worker.housekeeping.tick()
    enqueue("test.raises", {"name": "value"})
    [attempt] = claimed(worker)
    woken: list[bool] = []
    worker.housekeeping.wake = lambda: woken.append(True)

    finish(worker, attempt)
    worker.pump.turn()

    assert woken == [True]


def commit(engine: Engine, jobs: list[int], **fields: Any) -> None:
    with Session(engine) as session:
        new = NewJob(kind="journey.tick", payload={}, **fields)
        made = transitions.enqueue(session, [new], producer="app", actor="app", via="python")
        session.commit()
    jobs += [job.id for job in made]


def burst(journey: Journey) -> list[int]:
    """Commits of four threads, at once and a few milliseconds apart; each job starts soon."""
    jobs: list[int] = []
    together = threading.Barrier(4)

    def produce() -> None:
        together.wait()
        for _ in range(3):
            commit(journey.engine, jobs)
            time.sleep(random.uniform(0, 0.01))

    threads = [threading.Thread(target=produce) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return starts_soon(journey, jobs)


def starts_soon(journey: Journey, jobs: list[int]) -> list[int]:
    until(lambda: journey.ledger.starts_by_job().keys() >= {*jobs}, f"{jobs} start", SOON_S)
    return jobs


@pytest.mark.postgresql("LISTEN")
def test_a_worker_that_hardly_polls_misses_no_commit_and_no_due_time(journey: Journey) -> None:
    journey.work(QUEUE_POLL=NEVER)
    until(lambda: journey.rows(LISTENER), "the worker listens")
    jobs: list[int] = []

    for _ in range(8):
        jobs += burst(journey)
    jobs += starts_soon(journey, [journey.enqueue_one("journey.tick")])  # a bare Connection
    # Due one after the other: who has waited for the first waits for the second as well.
    later = [journey.enqueue_one("journey.tick", delay_s=delay) for delay in (0.7, 1.4, 2.1)]
    jobs += starts_soon(journey, later)
    retried = journey.enqueue_one("journey.flaky", {"fail_first": 2}, max_attempts=3)
    until(lambda: len(journey.ledger.starts(retried)) == 3, "its retries start", SOON_S)
    moved = journey.enqueue_one("journey.tick", delay_s=3600)
    with Session(journey.engine) as session:
        transitions.reschedule(session, [moved], actor="user:ana", delay_s=0.7)
        session.commit()
    jobs += [retried, *starts_soon(journey, [moved])]

    for job in later:
        [start] = journey.ledger.starts(job)
        assert start.at >= journey.job(job).available_at.timestamp()
    stand(journey, accepted=jobs)


class Stalls:
    """Notes when this machine kept a thread that only slept from its processor."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._over.wait(0.005):
            now = time.monotonic()
            if now - before > 0.025:
                self._seen.append((before, now))
            before = now

    def between(self, begin: float, end: float) -> float:
        """How long of this time nothing ran."""
        return sum(max(min(end, b) - max(begin, a), 0.0) for a, b in self._seen)


@pytest.mark.slow
def test_under_sporadic_load_no_job_starts_later_than_100_ms_after_its_commit(
    journey: Journey,
) -> None:
    journey.work(QUEUE_POLL="2s")
    until(lambda: journey.rows(LISTENER), "the worker listens")
    committed: dict[int, float] = {}

    def produce(seed: int) -> None:
        gaps = random.Random(seed)
        for _ in range(75):
            time.sleep(gaps.expovariate(4))
            jobs: list[int] = []
            commit(journey.engine, jobs)
            committed[jobs[0]] = time.monotonic()

    with Stalls() as stalls:
        producers = [threading.Thread(target=produce, args=(seed,)) for seed in range(4)]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join()
        starts_soon(journey, list(committed))

    waits = []
    for line in journey.ledger.starts():
        wait = line.mono - committed[line.job]
        waits.append(wait - stalls.between(committed[line.job], line.mono))
    waits.sort()
    p50, p99, worst = (1000 * waits[int(len(waits) * q)] for q in (0.5, 0.99, 0.9999))
    figures = f"{len(waits)} starts after p50 {p50:.1f}, p99 {p99:.1f}, at most {worst:.1f} ms"
    sys.stdout.write(figures)
    assert worst <= 100, figures
    stand(journey, accepted=list(committed))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_idle_worker_asks_less_than_once_a_second_whatever_its_threads(
    journey: Journey,
) -> None:
    proxies = [Proxy(journey.url) for _ in range(3)]
    few, many, two = proxies
    journey.work("--concurrency", "1", DATABASE_URL=few.url, QUEUE_POLL="1.5s")
    journey.work("--concurrency", "50", DATABASE_URL=many.url, QUEUE_POLL="1.5s")
    journey.work("--processes", "2", DATABASE_URL=two.url, QUEUE_POLL="1.5s")
    until(lambda: len(journey.rows(LISTENER)) == 4, "the workers listen")
    until(lambda: journey.workers_seen() == 4, "the workers have begun")
    until(quiet(proxies), "they have done what is due at a start")
    # What is asked for the first time is prepared, in a round trip of its own.
    until(lambda: journey.workers_seen() == 8, "a minute is over", 100)

    # Longer than a minute: what they do once a minute is in it.
    before = [len(proxy.asked) for proxy in proxies]
    began = time.monotonic()
    until(lambda: time.monotonic() > began + 75, "a minute and more is over", 100)
    seconds = time.monotonic() - began
    rates = [
        (len(proxy.asked) - count) / seconds for proxy, count in zip(proxies, before, strict=True)
    ]

    figures = "statements a second with 1 slot, with 50, of two processes: " + ", ".join(
        f"{rate:.2f}" for rate in rates
    )
    sys.stdout.write(figures)
    assert rates[0] < 1, figures
    assert rates[1] < 1, figures
    assert rates[2] < 2, figures
    journey.processes.close()
    for proxy in proxies:
        proxy.close()
    stand(journey, accepted=[])


def quiet(proxies: list[Proxy]) -> Callable[[], bool]:
    """Whether no process has asked much more than its looks of late."""

    def look() -> bool:
        late = time.monotonic() - 4.5
        asked = [len([at for at in proxy.asked if at > late]) for proxy in proxies]
        return asked[0] <= 5 and asked[1] <= 5 and asked[2] <= 10

    return look
