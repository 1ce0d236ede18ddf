"""The sums that each minute's line carries on: nothing falls, and there is an end to kinds."""

from __future__ import annotations

from typing import Any

from queueapp.jobs.minute_totals import IDLE_S, LONGEST_KIND, MOST_KINDS, OTHER, carried


def line(*kinds: str, **events: int) -> dict[str, dict[str, Any]]:
    return {kind: {"events": events, "retries": 1, "wait": {"3": 2}, "run": {}} for kind in kinds}


def of_kinds(totals: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {kind: one["events"] for kind, one in totals["kinds"].items()}


def test_each_line_adds_to_the_sums_before_it() -> None:
    first = carried(None, line("a", "b", enqueued=2, claimed=1), now_s=0)
    second = carried(first, line("a", enqueued=1, succeeded=1), now_s=60)
    third = carried(second, {}, now_s=120)

    assert second["events"] == {"enqueued": 5, "claimed": 2, "succeeded": 1}
    assert (second["wait"], second["run"], second["retries"]) == ({"3": 6}, {}, 3)
    assert of_kinds(second) == {"a": {"enqueued": 3, "succeeded": 1}, "b": {"enqueued": 2}}
    assert third == second
    assert first["events"]["enqueued"] == 4


def test_a_line_of_an_older_release_begins_at_nothing() -> None:
    assert carried({}, line("a", failed=1), now_s=0)["events"] == {"failed": 1}


def test_more_kinds_than_there_are_places_are_counted_together() -> None:
    many = {
        f"kind{n}": one for n in range(MOST_KINDS) for one in line("k", enqueued=n + 2).values()
    }
    full = carried(None, many, now_s=0)

    later = carried(full, {**line("late", enqueued=9), **line("kind0", enqueued=1)}, now_s=60)

    assert len(later["kinds"]) == MOST_KINDS + 1
    assert of_kinds(later)[OTHER] == {"enqueued": 9}
    assert of_kinds(later)["kind0"] == {"enqueued": 3}
    assert later["events"]["enqueued"] == full["events"]["enqueued"] + 10


def test_the_kind_that_was_idle_for_longest_gives_its_place_to_a_new_one() -> None:
    many = {f"kind{n}": one for n in range(MOST_KINDS) for one in line("k", enqueued=2).values()}
    full = carried(carried(None, line("old", enqueued=1), now_s=0), many, now_s=60)
    assert of_kinds(full)[OTHER] == {"enqueued": 2}

    later = carried(full, line("new", enqueued=1), now_s=IDLE_S)

    assert "old" not in later["kinds"]
    assert of_kinds(later)["new"] == {"enqueued": 1}
    # It did not become the others'.
    assert of_kinds(later)[OTHER] == {"enqueued": 2}


def test_the_largest_newcomers_come_first_and_overlong_names_never() -> None:
    names = [f"kind{n}" for n in range(MOST_KINDS + 5)]
    many = {name: line("k", enqueued=n + 1)["k"] for n, name in enumerate(names)}
    overlong = "x" * (LONGEST_KIND + 1)

    found = of_kinds(carried(None, {**many, **line(overlong, enqueued=1_000)}, now_s=0))

    assert overlong not in found
    assert set(found) == {*names[5:], OTHER}
    assert found[OTHER] == {"enqueued": 1_000 + 15}


def test_what_is_not_counted_by_kind_takes_no_place() -> None:
    totals = carried(None, line("a", claimed=3), now_s=0)

    assert (totals["kinds"], totals["events"]) == ({}, {"claimed": 3})
