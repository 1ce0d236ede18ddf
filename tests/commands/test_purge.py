"""``flask purge``: what would go, what went, and what somebody kept it from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa
from flask.testing import FlaskCliRunner
from sqlalchemy import text
from sqlalchemy.orm import Session

from queueapp.commands import purge
from queueapp.jobs import partitions
from queueapp.jobs.status import Status
from tests.factories import make_job


@pytest.fixture
def ended(session: Session) -> None:
    """Three that succeeded, two that failed and one that waits, all 20 days ago."""
    for status in (*[Status.SUCCEEDED] * 3, *[Status.FAILED] * 2, Status.QUEUED):
        make_job(session, status)
    session.execute(text("UPDATE jobs SET finished_at = finished_at - interval '20 days'"))
    session.commit()


@pytest.fixture
def old_days(engine: sa.Engine) -> Iterator[list[str]]:
    """Two days of the ledger, long ago."""
    with engine.begin() as connection:
        today = partitions.today_utc(connection)
        days = [today - timedelta(days=ago) for ago in (101, 100)]
        for day in days:
            partitions.make(connection, day)
    yield [str(day) for day in days]
    with engine.begin() as connection:
        for day in days:
            connection.execute(text(f"DROP TABLE IF EXISTS job_events_{day:%Y%m%d}"))


def ids(session: Session) -> list[int]:
    session.rollback()
    return list(session.scalars(text("SELECT id FROM jobs ORDER BY id")))


@pytest.mark.usefixtures("ended")
def test_a_dry_run_counts_and_removes_nothing(
    runner: FlaskCliRunner, session: Session, old_days: list[str]
) -> None:
    done = runner.invoke(args=["purge", "--dry-run", "--failed", "10d"])

    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "3 succeeded jobs ended more than 7 d ago",
        "2 failed jobs ended more than 10 d ago",
        "0 cancelled jobs ended more than 30 d ago",
        f"2 days of the ledger are older than 90 d: {old_days[0]} to {old_days[1]}",
        "Nothing was removed.",
    ]
    assert len(ids(session)) == 6


@pytest.mark.usefixtures("ended")
def test_what_is_old_goes_and_the_last_line_has_the_figures(
    runner: FlaskCliRunner, session: Session, old_days: list[str]
) -> None:
    done = runner.invoke(args=["purge"])

    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == (
        "Removed: 3 succeeded, 0 failed, 0 cancelled jobs,"
        f" 2 days of the ledger ({old_days[0]} to {old_days[1]})"
    )
    assert ids(session) == [4, 5, 6]
    again = runner.invoke(args=["purge"])
    assert again.output.splitlines()[-1] == (
        "Removed: 0 succeeded, 0 failed, 0 cancelled jobs, 0 days of the ledger"
    )


@pytest.mark.usefixtures("ended")
def test_what_somebody_holds_is_left_and_said(
    runner: FlaskCliRunner,
    engine: sa.Engine,
    session: Session,
    old_days: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(purge, "TRIES", 2)
    monkeypatch.setattr(purge, "PAUSE_S", 0.01)
    with engine.connect() as psql:
        psql.execute(text("SELECT FROM jobs WHERE id = 1 FOR UPDATE"))
        psql.execute(text("SELECT FROM job_events LIMIT 1"))

        done = runner.invoke(args=["purge"])

    assert done.exit_code == 0, done.output
    assert "left for the next time: 1 succeeded job, of which somebody has locked rows" in (
        done.output
    )
    assert "left for the next time: 2 days of the ledger" in done.output
    assert done.output.splitlines()[-1].startswith("Removed: 2 succeeded, 0 failed")
    assert 1 in ids(session)
    assert old_days


@pytest.mark.usefixtures("ended")
def test_ctrl_c_tells_what_is_done(
    runner: FlaskCliRunner, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(purge, "_drop_days", interrupted)

    done = runner.invoke(args=["purge", "--failed", "1d"])

    assert done.exit_code == 130
    assert done.output.splitlines()[-1].startswith("Stopped. Removed so far: 3 succeeded, 2 failed")
    assert ids(session) == [6]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ledger", "12h"], "at least 1d"),
        (["--succeeded", "soon"], "expected a duration"),
    ],
)
def test_an_age_that_cannot_be_is_refused(
    runner: FlaskCliRunner, options: list[str], said: str
) -> None:
    done = runner.invoke(args=["purge", *options])

    assert done.exit_code == 2
    assert said in done.output
