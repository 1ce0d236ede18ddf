from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bench.adaptors.recorder import Recorder
from bench.errors import Failed
from bench.records import Records
from bench.results import Results
from bench.spread import percentile, spread
from bench.verification import verify


def test_a_spread_is_the_median_with_least_and_most() -> None:
    found = spread([30.0, 10.0, 20.0, 1000.0])

    assert found is not None
    assert (found.middle, found.least, found.most, found.count) == (25.0, 10.0, 1000.0, 4)
    assert spread([]) is None


def test_a_percentile_is_a_figure_that_was_measured() -> None:
    figures = [float(one) for one in range(100, 0, -1)]

    assert [percentile(figures, point) for point in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert percentile([7.0], 99) == 7.0
    assert percentile([1.0, 2.0, 3.0], 1) == 1.0


def test_a_drain_in_which_all_ran_once_passes() -> None:
    assert verify([1, 1, 1], finished=3, whole=True) == 3
    assert verify([1, 1, 0, 0], finished=2, whole=False) == 2
    assert verify([1, 1, 1, 0], finished=2, whole=False, slack=1) == 3


@pytest.mark.parametrize(
    ("times", "finished", "whole", "slack", "said"),
    [
        ([1, 0, 1], 3, True, 0, "1 of 3 jobs never ran"),
        ([1, 2, 1], 3, True, 0, "1 jobs ran more than once, the first is number 1"),
        ([1, 2, 0], 2, False, 25, "ran more than once"),
        ([1, 1, 1], 2, True, 25, "3 jobs ran, 2 are marked done"),
        ([1, 1, 0], 1, False, 0, "2 jobs ran, 1 are marked done"),
        ([1, 1, 0], 3, False, 0, "2 jobs ran, 3 are marked done"),
    ],
)
def test_a_lost_a_doubled_and_an_unmarked_job_are_failures(
    times: list[int], finished: int, whole: bool, slack: int, said: str
) -> None:
    with pytest.raises(Failed, match=said):
        verify(times, finished=finished, whole=whole, slack=slack)


def test_what_threads_and_processes_record_is_counted_once_each(tmp_path: Path) -> None:
    first, second, records = Recorder(str(tmp_path)), Recorder(str(tmp_path)), Records(tmp_path)

    def work(start: int) -> None:
        for job in range(start, 2000, 4):
            first.hit(job)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    next(tmp_path.glob("*.runs")).rename(tmp_path / "other.runs")
    second.hit(7)
    second.hit(2000)

    times, firsts = records.runs(2002)
    assert records.progress()[0] == 2002
    assert (sum(times), times[7], times[2000], times[2001]) == (2002, 2, 1, 0)
    assert 0 < records.progress()[1] == min(firsts[:2001])
    assert firsts[2001] == 0


def test_a_rate_stands_beside_the_limit_that_was_measured_before_it() -> None:
    ok = {"status": "ok", "load": 1.0}
    limit, ours = {"peer": "limit", "workload": "batch"}, {"peer": "ours", "workload": "w3"}
    lines = [
        {**limit, **ok, "round": 0, "rate": 1000.0},
        {**ours, **ok, "round": 0, "rate": 500.0},
        {**limit, **ok, "round": 1, "rate": 100.0},
        {**ours, **ok, "round": 1, "rate": 80.0},
    ]

    found = Results(lines).spread("ours", "w3", "÷batch")

    assert found is not None
    assert (found.least, found.most) == (0.5, 0.8)
