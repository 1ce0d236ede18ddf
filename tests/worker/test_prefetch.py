"""How much a worker may hold ahead: asked by the pump while handler threads measure."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from queueapp.worker.prefetch import MEASURED_RUNS, Prefetch
from queueapp.worker.terms import Terms


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient_threads")
def test_runs_may_end_while_the_pump_asks() -> None:
    prefetch = Prefetch(Terms(concurrency=10, prefetch=10))
    over = threading.Event()

    def measure() -> None:
        while not over.is_set():
            prefetch.measured("demo.echo", 0.001, well=True)

    threads = [threading.Thread(target=measure) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            assert prefetch.allowance() in (0, 10)
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_one_bad_run_among_the_last_stops_prefetching() -> None:
    prefetch = Prefetch(Terms(concurrency=10, prefetch=10))
    for _ in range(MEASURED_RUNS):
        prefetch.measured("demo.echo", 0.001, well=True)
    assert prefetch.allowance() == 10

    prefetch.measured("demo.flaky", 0.001, well=False)

    assert prefetch.allowance() == 0
