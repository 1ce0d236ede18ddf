"""The geometry of the drawings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from queueapp.console.charts import HEIGHT, WIDTH, Chart, chart_of, share, wait_y
from queueapp.jobs.verdict.minutes import Minute

NOW = datetime(2026, 11, 29, 15, 0, tzinfo=UTC)


def line(back: float, *counts: int, span_s: float = 60, **more: dict[int, int]) -> Minute:
    """A line of (succeeded, cancelled, failed, to be retried) that ended ``back`` minutes ago."""
    at = NOW - timedelta(minutes=back)
    names = ("succeeded", "cancelled", "failed", "retry_scheduled")
    events = dict(zip(names, counts, strict=False))
    return Minute(at, at - timedelta(seconds=span_s), events, 0, more.get("waits", {}))


def chart(*lines: Minute) -> Chart:
    return chart_of(lines, NOW)


def test_the_highest_column_fills_the_chart() -> None:
    drawn = chart(line(1, 10, 0, 0), line(0, 30, 5, 5))

    assert drawn.peak == 40
    assert sum(block.height for block in drawn.columns[1].blocks) == HEIGHT
    assert drawn.columns[1].blocks[-1].y == 0
    assert drawn.totals["succeeded"] == 40


def test_outcomes_are_always_stacked_in_one_order() -> None:
    drawn = chart(line(1, 1, 2, 3, 4), line(0, 4, 3, 2, 1))

    orders = [[block.look for block in column.blocks] for column in drawn.columns]
    assert orders[0] == orders[1] == ["succeeded", "cancelled", "retrying", "failed"]


def test_a_storm_of_retries_fills_the_picture_though_no_job_has_failed() -> None:
    drawn = chart(line(0, 30, 0, 0, 70))

    heights = {block.look: block.height for block in drawn.columns[0].blocks}
    assert heights == {"succeeded": 30, "retrying": 70}
    assert (drawn.peak, drawn.totals["retrying"], drawn.totals["failed"]) == (100, 70, 0)


def test_one_failure_among_very_many_is_still_drawn() -> None:
    [column] = chart(line(0, 1_000_000, 0, 1)).columns

    assert column.blocks[-1].height >= 1


def test_a_line_stands_where_its_time_is_and_as_wide_as_it_lasted() -> None:
    first, second = chart(line(30, 1), line(0, 300, span_s=180)).columns

    assert first.x + first.width == pytest.approx(WIDTH / 2, abs=4)
    assert second.x == pytest.approx(WIDTH * 0.95)
    # By the minute, so that widths do not make it look busier.
    assert second.rates["succeeded"] == 100


def test_each_line_tells_what_was_counted_so_that_all_add_up_to_the_sums() -> None:
    drawn = chart(line(2, 200, 0, 31, 20, span_s=58), line(1, 219, 2, 3), line(0, 9, span_s=90))

    assert [column.counts["succeeded"] for column in drawn.columns] == [200, 219, 9]
    assert [column.rates["succeeded"] for column in drawn.columns] == [207, 219, 6]
    for look, total in drawn.totals.items():
        assert total == sum(column.counts[look] for column in drawn.columns)
    assert drawn.is_scaled
    assert not chart(line(1, 219), line(0, 9)).is_scaled


def test_lines_that_follow_within_a_minute_are_drawn_as_one() -> None:
    many = [line(1 - n / 5, 100, span_s=12, waits={3: 1}) for n in range(1, 6)]

    [column] = chart(*many).columns

    assert column.counts["succeeded"] == 500
    assert column.wait_s == 0.008


def test_what_was_not_counted_leaves_a_gap_and_what_is_older_is_left_out() -> None:
    drawn = chart(line(70, 9), line(40, 1), line(0, 1))

    assert len(drawn.columns) == 2
    assert drawn.columns[1].x - drawn.columns[0].x > WIDTH / 2


def test_a_line_behind_a_gap_is_as_wide_as_the_time_it_tells_of() -> None:
    """The first one after a night without workers must not fill the hour."""
    late = replace(line(0, 30, span_s=2_400), first_at=NOW - timedelta(seconds=100))
    sudden = replace(line(0, 30, span_s=2_400), first_at=NOW)

    [begun], [at_once] = chart(late).columns, chart(sudden).columns

    assert begun.x == pytest.approx(WIDTH * 3500 / 3600, abs=0.01)
    assert at_once.x == WIDTH * 59 / 60
    assert [one.rates["succeeded"] for one in (begun, at_once)] == [18, 30]


def test_the_axis_is_the_hour_whatever_was_counted() -> None:
    assert [(NOW - at).total_seconds() / 60 for at in chart().quarters] == [60, 45, 30, 15, 0]


def test_the_wait_is_on_a_scale_that_doubles() -> None:
    assert [wait_y(0.001 * 2**n) for n in (0, 1, 2)] == [
        pytest.approx(HEIGHT * (1 - n / 23), abs=0.01) for n in (1, 2, 3)
    ]
    assert wait_y(10**9) == 0
    drawn = chart(line(1, 1, waits={12: 100}), line(0, 1))
    assert drawn.columns[1].wait_y is None
    assert drawn.last_wait_s == 4.096


def test_marks_stand_at_their_moment_in_the_hour() -> None:
    marks = [(NOW - timedelta(minutes=15), "deploy"), (NOW - timedelta(hours=2), "pause")]

    [mark] = chart_of([line(0, 1)], NOW, marks).marks

    assert (mark.said, mark.x) == ("deploy", WIDTH * 0.75)


def test_marks_that_say_the_same_beside_each_other_are_told_once() -> None:
    marks = [(NOW - timedelta(minutes=n), "one" if n > 3 else "two") for n in range(12)]

    told = chart_of([line(0, 1)], NOW, marks).told

    assert [(one.number, one.said) for one in told] == [(8, "one"), (4, "two")]
    assert (told[0].since, told[0].at) == (marks[-1][0], marks[4][0])


def test_nothing_at_all_draws_nothing() -> None:
    drawn = chart(line(0, 0, 0, 0))

    assert drawn.peak == 0
    assert drawn.columns[0].blocks == ()
    assert chart().columns == []


@pytest.mark.parametrize(
    ("number", "of", "length"), [(0, 10, 0), (None, 10, 0), (5, 10, 50), (20, 10, 100), (1, 0, 0)]
)
def test_share_is_the_part_of_the_scale(number: int | None, of: int, length: float) -> None:
    assert share(number, of) == length
