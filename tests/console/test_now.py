"""The first page: right numbers, honest about what it does not know, helpful when empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import queries
from queueapp.jobs.queries import depth
from queueapp.jobs.status import Status
from tests.console.conftest import Console, words
from tests.factories import make_job


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def test_an_empty_queue_teaches_how_to_make_the_first_job(console: Console) -> None:
    page = console.get("/")

    for command in (
        "flask work",
        "flask jobs enqueue demo.sleep",
        "curl http://localhost/api/jobs",
    ):
        assert command in page
    assert "10,000" not in page


def test_the_numbers_of_the_moment_are_those_of_the_queue(
    console: Console, session: Session
) -> None:
    oldest = make_job(session, available_at=datetime.now(UTC) - timedelta(hours=2))
    for status in Status:
        make_job(session, status)
    make_job(session, available_at=later())
    make_job(session, available_at=later(), attempts=1)
    session.commit()

    shown = words(console.get("/"))

    assert "oldest due has waited 2h 00m job " + str(oldest.id) in shown
    assert "due now 2 " in shown
    assert "running 1 held by workers" in shown
    assert "scheduled 2 1 of them to be retried" in shown
    assert "failed in the last hour 1" in shown


def test_the_chart_has_a_table_with_the_same_numbers(console: Console, session: Session) -> None:
    for _ in range(3):
        make_job(session, Status.SUCCEEDED)
    make_job(session, Status.FAILED)
    session.commit()

    page = console.get("/")

    assert "so far 3 1 0" in words(page)
    assert page.count("<title>") == 1 + 15


def test_nothing_due_is_said_in_words(console: Console, session: Session) -> None:
    make_job(session, Status.SUCCEEDED)
    session.commit()

    shown = words(console.get("/"))

    assert "oldest due has waited nothing no job is due" in shown
    assert "Nothing waits." in shown
    assert "Nothing is running." in shown
    assert "No job has failed." in shown


def test_counting_stops_at_its_bound_and_says_so(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth, "COUNT_LIMIT", 2)
    monkeypatch.setattr("queueapp.console.filters.COUNT_LIMIT", 2)
    for _ in range(4):
        make_job(session)
    session.commit()

    assert "due now 2+" in words(console.get("/"))


@pytest.mark.postgresql("statement_timeout")
@pytest.mark.parametrize(
    ("read", "gone"),
    [
        ("status_counts", "running – the query took longer than 2 s and was stopped"),
        ("depth_by_priority", "oldest due has waited – the query took longer than 2 s"),
        ("throughput", "last 15 minutes, UTC – the query took longer than 2 s"),
        ("failed_since", "failed in the last hour – the query took longer than 2 s"),
        ("longest_running", "Running longest – the query took longer than 2 s"),
        ("newest_failures", "Failed last – the query took longer than 2 s"),
    ],
)
def test_one_read_that_takes_too_long_does_not_take_the_page(
    console: Console, session: Session, monkeypatch: pytest.MonkeyPatch, read: str, gone: str
) -> None:
    for status in Status:
        make_job(session, status)
    session.commit()

    def slow(session: Session, *_args: Any, **_kwargs: Any) -> None:
        queries.bound_reads(session, seconds=0.01)
        session.execute(sa.text("SELECT pg_sleep(1)"))

    monkeypatch.setattr(queries, read, slow)
    shown = words(console.get("/"))

    assert gone in shown
    # All other parts are there.
    assert shown.count("the query took longer than 2 s") <= 5
    assert "Waiting by priority" in shown


def test_a_long_kind_and_error_stay_whole_in_their_titles(
    console: Console, session: Session
) -> None:
    kind = "k" * 100
    make_job(session, Status.FAILED, kind=kind, error_class="E" * 200)
    session.commit()

    page = console.get("/")

    assert f'title="{kind}"' in page
    assert f'title="{"E" * 200}"' in page
