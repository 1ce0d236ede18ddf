"""Loops back off, come back, and never die in silence."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy.exc import OperationalError

from queueapp.worker import loop as loops
from queueapp.worker.loop import MOST_FAULTS, Loop


@pytest.mark.parametrize("error", [MemoryError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_loop_that_only_fails_says_that_it_gave_up(error: type[BaseException]) -> None:
    died: list[str] = []

    def tick() -> float:
        raise error

    loop = Loop("odd", tick, died.append)
    loop._wanted.wait = lambda _timeout=None: True  # type: ignore[assignment,method-assign]
    loop.start()
    loop.join(10)

    assert died == ["odd"]


@pytest.mark.parametrize("error", [MemoryError, SystemExit])
def test_one_fault_does_not_end_a_loop(error: type[BaseException]) -> None:
    ticks: list[int] = []
    done = threading.Event()

    def tick() -> float:
        ticks.append(1)
        if len(ticks) == 1:
            raise error
        done.set()
        return 60

    loop = Loop("odd", tick, lambda _name: None)
    loop.start()

    assert done.wait(10)
    loop.stop()
    loop.join(10)


def test_an_outage_is_waited_out_with_growing_pauses() -> None:
    waits: list[float] = []
    gave_up: list[str] = []
    error = OperationalError("SELECT", {}, ConnectionRefusedError())
    loop = Loop("odd", lambda: 0.0, gave_up.append)

    for _ in range(MOST_FAULTS * 3):
        waits.append(loop._back_off(error))

    assert waits[0] <= 0.2
    assert 7 <= waits[-1] <= 15
    assert gave_up == []


def test_a_tick_that_does_not_return_is_seen_and_a_freeze_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, over = threading.Event(), threading.Event()

    def tick() -> float:
        began.set()
        over.wait(30)
        return 60

    loop = Loop("odd", tick, lambda _name: None)
    assert not loop.hangs()
    loop.start()
    began.wait(10)
    assert not loop.hangs()
    # The first look after the process was stopped for an hour.
    loop._seen_at -= 3600
    assert not loop.hangs()
    monkeypatch.setattr(loops, "HANGS_AFTER_S", 8.0)
    assert not loop.hangs()
    loop._seen_at -= 4

    assert loop.hangs()
    loop.stop()
    over.set()
    loop.join(10)
    assert not loop.hangs()
