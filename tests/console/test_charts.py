"""The geometry of the drawings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queueapp.console.charts import HEIGHT, chart_of, share
from queueapp.jobs.queries import Outcomes, Throughput
from queueapp.jobs.status import Status

START = datetime(2026, 11, 29, 15, 0, tzinfo=UTC)


def minutes(*counts: tuple[int | None, int | None, int | None]) -> Throughput:
    """Minutes of (succeeded, cancelled, failed)."""
    order = (Status.SUCCEEDED, Status.CANCELLED, Status.FAILED)
    return Throughput(
        [
            Outcomes(START + timedelta(minutes=n), dict(zip(order, row, strict=True)))
            for n, row in enumerate(counts)
        ],
        (),
    )


def test_the_highest_column_fills_the_chart() -> None:
    chart = chart_of(minutes((10, 0, 0), (30, 5, 5)))

    assert chart.peak == 40
    assert sum(block.height for block in chart.columns[1].blocks) == HEIGHT
    assert chart.columns[1].blocks[-1].y == 0


def test_outcomes_are_always_stacked_in_one_order() -> None:
    chart = chart_of(minutes((1, 2, 3), (3, 2, 1)))

    orders = [[block.status for block in column.blocks] for column in chart.columns]
    assert orders[0] == orders[1] == [Status.SUCCEEDED, Status.CANCELLED, Status.FAILED]


def test_one_failure_among_very_many_is_still_drawn() -> None:
    [column] = chart_of(minutes((1_000_000, 0, 1))).columns

    assert column.blocks[-1].height >= 1


def test_a_minute_that_was_not_counted_is_marked_and_not_drawn_as_zero() -> None:
    unknown, known = chart_of(minutes((None, 0, 0), (1, 0, 0))).columns

    assert not unknown.complete
    assert known.complete


def test_nothing_at_all_draws_nothing() -> None:
    chart = chart_of(minutes((0, 0, 0)))

    assert chart.peak == 0
    assert chart.columns[0].blocks == ()


@pytest.mark.parametrize(
    ("number", "of", "length"), [(0, 10, 0), (None, 10, 0), (5, 10, 50), (20, 10, 100), (1, 0, 0)]
)
def test_share_is_the_part_of_the_scale(number: int | None, of: int, length: float) -> None:
    assert share(number, of) == length
