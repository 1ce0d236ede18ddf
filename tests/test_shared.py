"""One reading for everybody: who reads, who waits, who gets what is there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from queueapp import shared
from queueapp.shared import Shared, Snapshot
from tests.live.processes import until


class Source:
    """Something to read that is slow when told to be; counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0
        self.at_once = 0
        self.most_at_once = 0
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.fails: Exception | None = None
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            self.reads += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            number = self.reads
        self.begun.set()
        assert self.gate.wait(30)
        with self._lock:
            self.at_once -= 1
        if self.fails:
            raise self.fails
        return number


@pytest.fixture
def source() -> Source:
    return Source()


def together(count: int, ask: Callable[[], Snapshot[int]]) -> list[Snapshot[int]]:
    """Ask from so many threads at the same moment."""
    barrier = threading.Barrier(count)

    def one(_: int) -> Snapshot[int]:
        barrier.wait(30)
        return ask()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_many_that_ask_at_once_have_it_read_once(source: Source) -> None:
    reading = Shared(source, life_s=60)

    found = together(50, reading.get)

    assert source.reads == 1
    assert {one.value for one in found} == {1}
    assert reading.get().value == 1
    assert source.reads == 1


def test_while_one_reads_the_others_get_what_is_there(source: Source) -> None:
    reading = Shared(source, life_s=0)
    assert reading.get().value == 1
    source.gate.clear()
    source.begun.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(reading.get)
        assert source.begun.wait(30)

        assert {one.value for one in together(20, reading.get)} == {1}

        source.gate.set()
        assert first.result(30).value == 2
    assert source.most_at_once == 1


def test_what_is_very_old_is_given_to_nobody(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Shared(source, life_s=0)
    reading.get()
    monkeypatch.setattr(shared, "OLD_S", -1.0)
    source.gate.clear()
    source.begun.clear()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(reading.get) for _ in range(2)]
        assert source.begun.wait(30)
        source.gate.set()

        assert {one.result(30).value for one in both} <= {2, 3}


def test_a_reading_that_fails_leaves_the_one_before_with_its_age(source: Source) -> None:
    reading = Shared(source, life_s=0, name_failure=str)
    source.fails = ValueError("no answer")
    assert reading.get() == Snapshot(None, 0.0, "no answer")
    source.fails = None
    reading.get()
    source.fails = ValueError("gone again")

    found = reading.get()

    assert (found.value, found.failure) == (2, "gone again")
    assert found.age_s > 0
    source.fails = None
    assert reading.get().failure is None


def test_what_was_read_before_something_was_done_is_given_to_nobody_after(source: Source) -> None:
    reading = Shared(source, life_s=60)
    reading.get()
    reading.forget()
    assert reading.get().value == 2

    source.gate.clear()
    source.begun.clear()
    reading.forget()
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(reading.get)
        assert source.begun.wait(30)
        reading.forget()
        source.gate.set()
        # Whoever asked before that has an answer all the same.
        assert early.result(30).value == 3
    assert reading.get().value == 4


def test_what_took_long_to_be_read_is_given_to_who_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(shared, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def read() -> int:
        clock[0] += 2 * shared.OLD_S
        return 1

    found = Shared(read, life_s=2).get(wait_s=60 + 2 * shared.OLD_S)

    assert found.present == 1
    assert found.age_s == 2 * shared.OLD_S, "and told how old it is"


def test_nobody_waits_for_a_reading_that_has_been_on_its_way_for_long(source: Source) -> None:
    reading = Shared(source, life_s=60, wait_s=20)
    source.gate.clear()
    assert reading.get(wait_s=0.01).value is None
    assert reading._flight
    reading._flight.began -= 20

    with ThreadPoolExecutor(8) as pool:
        late = [pool.submit(reading.get) for _ in range(8)]
        found = [one.result(10) for one in late]
        source.gate.set()

    assert {one.value for one in found} == {None}
    assert found[0].why_not == "reading it takes longer than anybody waits"


def test_after_a_failure_one_finds_out_and_nobody_waits_with_it(source: Source) -> None:
    reading = Shared(source, life_s=0, name_failure=str)
    source.fails = ValueError("no answer")
    reading.get()
    source.gate.clear()
    source.begun.clear()
    source.fails = None
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(reading.get, wait_s=30)
        assert source.begun.wait(30)

        others = together(8, reading.get)

        assert not one.done()
        source.gate.set()
        assert one.result(30).value == 2
    assert {other.failure for other in others} == {"no answer"}


@pytest.mark.parametrize("first", ["who has it begun", "who comes long after"])
def test_a_failure_that_may_be_over_is_told_to_nobody_who_can_wait(
    source: Source, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """The first look after an outage: the page begins it, looks at something else, and asks."""
    reading = Shared(source, life_s=1e-9, name_failure=str)
    reading.get()
    source.fails = ValueError("no answer")
    assert reading.get().failure == "no answer"
    source.fails = None
    source.gate.clear()
    source.begun.clear()
    begun = reading.begin()
    assert begun
    assert not reading.begin(), "it is on its way"
    assert source.begun.wait(30)
    if first == "who comes long after":
        begun = False
        assert reading.get().failure == "no answer"
        monkeypatch.setattr(shared, "OLD_S", -1.0)
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(reading.get, wait_s=30, begun=begun)
        threading.Timer(0.05, source.gate.set).start()

        found = one.result(30)
        assert found.failure is None
        assert found.value == source.reads


def test_who_would_take_an_older_one_is_given_it(source: Source) -> None:
    reading = Shared(source, life_s=0.001)
    assert reading.get().value == 1

    assert reading.get(life_s=60).value == 1
    reading.life_s = 0
    assert reading.get(life_s=60).value == 2, "where everybody looks for himself, so does he"


@pytest.mark.parametrize("lost", ["it hangs", "it stayed behind in a fork"])
def test_a_reading_that_will_not_land_keeps_nobody_waiting(
    source: Source, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    reading = Shared(source, life_s=60)
    source.gate.clear()
    assert reading.get(wait_s=0.01).value is None
    assert source.begun.wait(30)
    source.begun.clear()
    if lost == "it hangs":
        monkeypatch.setattr(shared, "PATIENCE_S", -1.0)
    else:
        monkeypatch.setattr(os, "getpid", lambda: -1)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(reading.get, wait_s=30)
        assert source.begun.wait(30)
        source.gate.set()

        assert second.result(30).value == 2


def test_without_a_thread_to_be_had_it_is_read_by_who_asks(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    reading = Shared(source, life_s=60)
    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert reading.get(wait_s=0.01).value == 1


def test_after_a_failure_nobody_tries_again_at_once(source: Source) -> None:
    reading = Shared(source, life_s=60, name_failure=str)
    source.fails = ValueError("no answer")

    assert {reading.get().failure for _ in range(5)} == {"no answer"}
    assert source.reads == 1


def test_who_cannot_wait_is_answered_without_it(source: Source) -> None:
    reading = Shared(source, life_s=60)
    source.gate.clear()

    assert reading.get(wait_s=0.01) == Snapshot(None, 0.0, None)
    source.gate.set()
    assert reading.get().value == 1


def test_an_error_that_has_no_words_is_logged(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    reading = Shared(source, life_s=60)
    source.fails = KeyError("oops")

    assert reading.get().failure == "an error of ours, see the log"
    assert "oops" in caplog.text


def test_who_needs_no_fresh_one_waits_for_none_but_the_first_and_an_old_one(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Shared(source, life_s=1e-9)
    assert reading.soon().value == 1

    source.gate.clear()
    source.begun.clear()
    assert reading.soon().value == 1
    assert source.begun.wait(30)
    source.gate.set()
    until(lambda: reading.peek().value == 2, "the newer one is there")

    monkeypatch.setattr(shared, "OLD_S", 0.0)
    assert reading.soon().value == source.reads
    reading.life_s = 0.0
    assert reading.soon().value == source.reads
