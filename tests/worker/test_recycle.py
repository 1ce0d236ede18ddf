"""When a process should be replaced."""

from __future__ import annotations

import mmap
import re

import pytest

from queueapp import config
from queueapp.config import readers
from queueapp.errors import SettingError
from queueapp.worker import Terms
from queueapp.worker.recycle import Recycling, resident


def test_nothing_is_replaced_without_a_limit() -> None:
    recycling = Recycling(Terms(), list)

    assert not any(recycling.finished() for _ in range(10_000))
    assert recycling.reason() is None


def test_jobs_are_counted_and_processes_do_not_all_end_at_once() -> None:
    counts = set()
    for _ in range(50):
        recycling, jobs = Recycling(Terms(max_jobs=1000), list), 1
        while not recycling.finished():
            jobs += 1
        assert re.fullmatch(r"\d+ jobs are done", recycling.reason() or "")
        counts.add(jobs)

    assert 900 <= min(counts) < max(counts) <= 1100


def test_memory_counts_after_the_first_job() -> None:
    """Before it a replacement would need as much: it would be replaced over and over."""
    recycling = Recycling(Terms(max_rss=1 << 20), list)

    before = recycling.reason()
    recycling.finished()

    assert before is None
    assert re.fullmatch(r"it uses \d+ MB of memory, the limit is 1 MB", recycling.reason() or "")
    assert Recycling(Terms(max_rss=1 << 50), list).reason() is None


def test_a_limit_that_every_process_is_over_from_the_start_is_told() -> None:
    told = Recycling(Terms(max_rss=10 << 20), list).too_tight()

    assert re.match(
        r"--max-rss is 10 MB, a process that has done nothing yet uses \d+ MB", told or ""
    )
    assert Recycling(Terms(max_rss=1 << 50), list).too_tight() is None
    assert Recycling(Terms(), list).too_tight() is None


def test_memory_is_that_of_now() -> None:
    before = resident()
    # From the system: the heap may have as much at hand, which is resident already.
    with mmap.mmap(-1, 64 << 20) as ballast:
        ballast.write(b"x" * len(ballast))
        with_it = resident()

    assert with_it - before > 50 << 20
    assert resident() < with_it - (30 << 20)


@pytest.mark.parametrize(
    ("slots", "lost", "replaced"), [(10, 4, False), (10, 5, True), (1, 1, True), (3, 1, False)]
)
def test_half_the_slots_lost_is_too_many(slots: int, lost: int, replaced: bool) -> None:
    recycling = Recycling(Terms(concurrency=slots), lambda: range(lost))

    assert (recycling.reason() is not None) == replaced


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512MB", 512 << 20), ("1.5g", 3 << 29), ("2 GiB", 2 << 30), ("100", 100)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert readers.size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", "1TB", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="QUEUE_MAX_RSS"):
        config.load({"QUEUE_MAX_RSS": text})
