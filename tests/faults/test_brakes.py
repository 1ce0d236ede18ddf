"""Idle workers hardly ask, and workers without a database ask less and less often."""

from __future__ import annotations

import re
import time

import pytest

from tests.live.checks import stand
from tests.live.journey import Journey
from tests.live.processes import until
from tests.live.proxy import Proxy

# With the poll interval that users have by default, not that of other tests.
DEFAULT = {"QUEUE_POLL": "1.5s"}
# What begins with a worker is done by then: signs of life, days of the ledger.
SETTLED_S = 2.0
LOOPS = 3
# The loops that ask often begin to back off at once; pumps find out when they next look.
EARLY_S = 3.0


def lasts(seconds: float) -> tuple[float, float]:
    """Let so much time pass; from when to when that was."""
    began = time.monotonic()
    until(lambda: time.monotonic() - began >= seconds, "time passes", within=seconds + 5)
    return began, time.monotonic()


def count(instants: list[float], since: float, to: float) -> int:
    return len([at for at in instants if since <= at < to])


@pytest.mark.parametrize(
    ("workers", "idle_s", "outage_s"),
    [
        pytest.param(2, 6, 12, marks=pytest.mark.slow),
        pytest.param(3, 60, 120, marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
)
def test_idle_and_cut_off_workers_hardly_ask(
    journey: Journey, proxy: Proxy, workers: int, idle_s: int, outage_s: int
) -> None:
    running = journey.workers(workers, "--concurrency", "16", DATABASE_URL=proxy.url, **DEFAULT)
    lasts(SETTLED_S)

    asked = count(proxy.asked, *lasts(idle_s))
    assert 0 < asked <= workers * (idle_s + 1), "more than a statement a second"

    before = [len(worker.said().splitlines()) for worker in running]
    proxy.refuse()
    began, ended = lasts(outage_s)
    third = outage_s / 3
    early = count(proxy.accepted, began, began + EARLY_S)
    late = count(proxy.accepted, ended - third, ended)
    proxy.admit()

    assert late > 0
    assert late / third < early / EARLY_S / 2, f"{early} attempts at first, {late} at last"
    assert late <= workers * LOOPS * (third / 7 + 1)
    for worker, lines in zip(running, before, strict=True):
        said = worker.said().splitlines()[lines:]
        assert len(said) <= LOOPS * (3 + outage_s / 60), said
        waits = [float(found[1]) for line in said if (found := re.search(r"again in (.*)s$", line))]
        assert len(set(waits)) > 1, waits
    job = journey.enqueue_one("journey.tick")
    journey.wait_for_status(job, "succeeded", within=30)
    assert all(worker.is_running for worker in running)
    stand(journey)
