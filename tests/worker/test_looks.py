"""How much each claim of a pump looks at, and what a short look means for its sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from queueapp.jobs import outlook
from queueapp.jobs.claim import Claim, Holder
from queueapp.jobs.models import Job
from queueapp.jobs.outlook import Edge, Outlook
from queueapp.worker import housekeeping, looks
from queueapp.worker.inbox import Mail
from queueapp.worker.looks import LEAST_GAP_S, MOST_GAP_S, SHARE, Looks
from tests.worker.conftest import Bench, Enqueue
from tests.worker.test_pump import claimed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ME = Holder("test:1:000000", lease_s=60)


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(looks, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def a_claim(job: int = 1) -> Claim:
    return Claim(job, "k", "{}", 0, NOW, NOW, NOW, 1, 5, 0, None, uuid4(), started=True)


def claim(looks: Looks, clock: Clock, *, took: float, brought: int, wanted: int = 10) -> bool:
    """Let a claim take so long and bring so many; whether it looked at everything."""
    whole = looks.next(ME) is None
    clock.now += took
    looks.brought([a_claim(n) for n in range(brought)], wanted)
    return whole


@pytest.mark.parametrize(
    ("took", "gap"), [(0.0001, LEAST_GAP_S), (0.01, SHARE * 0.01), (3.0, MOST_GAP_S)]
)
def test_whole_looks_take_a_share_of_the_time_and_keep_a_gap(
    clock: Clock, took: float, gap: float
) -> None:
    looks = Looks()
    assert claim(looks, clock, took=took, brought=10)
    clock.now += MOST_GAP_S
    assert claim(looks, clock, took=took, brought=10)

    clock.now += 0.99 * gap
    assert not claim(looks, clock, took=0, brought=10)
    clock.now += 0.02 * gap
    assert claim(looks, clock, took=0, brought=10)


def test_one_look_alone_that_took_long_may_have_waited_for_something(clock: Clock) -> None:
    looks = Looks()
    claim(looks, clock, took=0.001, brought=10)
    clock.now += LEAST_GAP_S

    assert claim(looks, clock, took=9.0, brought=10)

    clock.now += SHARE * 0.001
    assert claim(looks, clock, took=0.001, brought=10)


def test_looks_that_fail_for_their_length_leave_time_for_short_ones(clock: Clock) -> None:
    looks = Looks()
    for _ in range(2):
        assert looks.next(ME) is None
        clock.now += 30.0
        assert looks.next(ME) is not None, "no answer, no second one at once"
        looks.brought([], 10)
        clock.now += LEAST_GAP_S

    assert looks.next(ME) is not None
    looks.brought([], 10)
    clock.now += MOST_GAP_S
    assert looks.next(ME) is None


def test_a_look_behind_the_cursor_costs_no_part_of_the_share(clock: Clock) -> None:
    looks = Looks()
    claim(looks, clock, took=0.001, brought=10)

    assert not claim(looks, clock, took=5.0, brought=10)
    assert claim(looks, clock, took=0.001, brought=10)


def test_it_goes_on_behind_all_that_was_claimed(clock: Clock) -> None:
    looks = Looks()
    claim(looks, clock, took=0.001, brought=10)
    claim(looks, clock, took=0, brought=7)

    cursor = looks.next(ME)

    assert cursor is not None
    assert '"id":6' in cursor.document()


@pytest.mark.parametrize(
    "other",
    [
        Holder(ME.name, lease_s=60, skip=("a",)),
        Holder(ME.name, lease_s=60, only=("a",)),
        Holder(ME.name, lease_s=60, only=()),
    ],
)
def test_kinds_that_change_are_looked_for_everywhere_at_once(clock: Clock, other: Holder) -> None:
    looks = Looks()
    claim(looks, clock, took=1.0, brought=10)
    assert looks.next(ME) is not None

    assert looks.next(other) is None
    looks.brought([], 10)
    assert looks.next(other) is not None
    assert looks.next(ME) is None


def test_after_a_short_look_behind_the_cursor_the_pump_waits_for_a_whole_one(clock: Clock) -> None:
    looks = Looks()
    for _ in range(2):
        claim(looks, clock, took=0.01, brought=10)
        clock.now += 0.05

    claim(looks, clock, took=0, brought=9)

    assert looks.patience == pytest.approx(0.15)
    clock.now += 1
    assert looks.patience == 0
    # A whole one that is as short has missed nothing.
    assert claim(looks, clock, took=0, brought=9)
    assert looks.patience is None


def test_a_full_look_behind_the_cursor_gives_no_reason_to_wait(clock: Clock) -> None:
    looks = Looks()
    claim(looks, clock, took=0.01, brought=10)
    claim(looks, clock, took=0, brought=10)

    assert looks.patience is None


# With the pump


@pytest.mark.postgresql("claims behind a cursor")
def test_a_short_look_neither_drains_a_worker_nor_lets_it_sleep(
    bench: Bench, enqueue: Enqueue, job: Callable[[int], Job], clock: Clock
) -> None:
    worker = bench.worker()
    first = enqueue()
    assert [attempt.claim.id for attempt in claimed(worker)] == [first]
    late = enqueue(available_at=NOW)
    worker.pump._take(Mail(abandoned=list(worker.pump.unsettled)))

    assert claimed(worker) == []

    assert job(late).status == "queued"
    assert worker.pump.settled
    assert not worker.pump.drained
    assert worker.pump._patience() <= LEAST_GAP_S
    clock.now += 1
    assert [attempt.claim.id for attempt in claimed(worker)] == [late]


# The looks of housekeeping


@pytest.mark.postgresql("looks that begin at an edge")
def test_looks_begin_at_the_edge_and_now_and_then_everywhere(
    bench: Bench, enqueue: Enqueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges: list[Edge] = []

    def slow(database: Any, *, edge: Edge, **how: Any) -> Outlook:
        edges.append(edge)
        time.sleep(0.01)
        return outlook.look(database, edge=edge, **how)

    monkeypatch.setattr(housekeeping, "look", slow)
    enqueue()
    worker = bench.worker()
    began = time.monotonic()

    worker.housekeeping.tick()
    # Twenty times as long as it took, and it took a hundredth of a second at least.
    assert worker.housekeeping._whole_at >= began + 21 * 0.01
    worker.housekeeping._whole_at += 60
    worker.housekeeping.tick()
    worker.housekeeping._whole_at = 0
    worker.housekeeping.tick()

    first, narrow, wide = edges
    assert first == Edge(places=[])
    assert narrow.low is not None
    assert [place["priority"] for place in narrow.places] == [0]
    assert wide == Edge(places=[{"priority": 0}])
