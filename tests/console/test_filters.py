"""How instants, durations and numbers are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from queueapp.console import filters
from queueapp.jobs.why.words import elapsed

NOW = datetime(2026, 11, 29, 15, 4, 5, 123_456, UTC)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0 s"),
        (0.99, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (252, "4 min 12 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 0 min"),
        (90_061, "1 d 1 h"),
        (400 * 86_400, "400 d 0 h"),
    ],
)
def test_elapsed_shows_the_two_largest_units(seconds: float, written: str) -> None:
    assert elapsed(seconds) == written


@pytest.mark.parametrize(
    ("milliseconds", "written"),
    [
        (0, "0 ms"),
        (0.4, "<1 ms"),
        (3.4, "3 ms"),
        (999.4, "999 ms"),
        (1_250, "1.25 s"),
        (12_340, "12.3 s"),
        (252_000, "4 min 12 s"),
        (None, "–"),
        ("soon", "–"),
    ],
)
def test_duration_is_finer_below_a_minute(milliseconds: object, written: str) -> None:
    assert filters.duration(milliseconds) == written


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10,000"), (10_001, "10,000+"), (None, "–")],
)
def test_count_says_where_the_counting_stopped(number: int | None, written: str) -> None:
    assert filters.count(number) == written


def test_instants_are_written_in_utc_whatever_their_zone() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=-7)))

    assert filters.iso(there) == "2026-11-29T15:04:05.123Z"
    assert filters.stamp(there) == "2026-11-29 15:04:05 UTC"
    assert filters.clock(there) == "15:04:05"


def test_age_is_the_distance_in_either_direction() -> None:
    assert filters.age(NOW - timedelta(minutes=3), NOW) == "3 min 0 s"
    assert filters.age(NOW + timedelta(minutes=3), NOW) == "3 min 0 s"


def test_the_date_is_written_unless_it_is_todays() -> None:
    assert filters.time_of(NOW, NOW) == "15:04:05"
    assert filters.time_of(NOW - timedelta(days=1), NOW) == "11-28 15:04:05"


@pytest.mark.parametrize(
    ("octets", "written"),
    [(1, "1 byte"), (1_023, "1,023 bytes"), (1_536, "1.5 KiB"), (2**21, "2.0 MiB")],
)
def test_size_is_written_in_its_unit(octets: int, written: str) -> None:
    assert filters.size(octets) == written


def test_cut_keeps_what_fits() -> None:
    assert filters.cut("abc", 3) == "abc"
    assert filters.cut("abcd", 3) == "ab…"
